"""Other data sets: those that are shipped, ratings, clicks and speech."""
