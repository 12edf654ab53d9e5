"""Bases of operators that write files."""
