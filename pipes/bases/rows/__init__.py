"""Bases of operators on columns and their rows."""
