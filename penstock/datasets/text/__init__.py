"""The classic data sets of text."""
