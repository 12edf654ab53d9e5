"""Chains that begin with files, tables or data sets, by one call."""
