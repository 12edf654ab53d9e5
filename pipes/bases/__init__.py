"""Base classes and functions that several operators share."""
