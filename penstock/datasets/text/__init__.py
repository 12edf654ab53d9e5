"""The classic data sets of text."""

from . import classification, glue, judgements, language, questions, tagging, translation

__all__ = ["classification", "glue", "judgements", "language", "questions", "tagging", "translation"]
