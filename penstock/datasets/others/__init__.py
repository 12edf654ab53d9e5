"""Other data sets: those that are installed with Penstock, ratings, clicks and speech."""
