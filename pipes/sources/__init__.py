"""Functions that start a chain from files, tables or data sets."""
