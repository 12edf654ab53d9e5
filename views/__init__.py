"""Views of a chain for people: pictures, words, times and progress."""

from . import metrics as metrics
