"""Operators that give several pipes."""
