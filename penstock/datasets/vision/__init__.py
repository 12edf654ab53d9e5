"""The classic data sets of images."""
