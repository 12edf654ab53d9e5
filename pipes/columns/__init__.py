"""Columns of Arrow: in and out, their files, and what batches and rows they make."""
