"""Bases of operators that read or work ahead of their consumer."""
