"""Addresses: opened, listed, read, written whole, tried again, kept secret."""
