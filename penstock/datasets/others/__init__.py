"""Other data sets: those that are installed with Penstock, ratings, clicks and speech."""

from . import criteo, installed, librispeech, movielens

__all__ = ["criteo", "installed", "librispeech", "movielens"]
