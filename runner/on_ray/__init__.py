"""Workers and data sets on a Ray cluster."""
