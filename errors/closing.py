"""Closing iterators and files, whatever they are."""

from __future__ import annotations


def close(iterator: object) -> None:
    """Close an iterator that has `close`, such as a generator, to release its resources now."""
    closing = getattr(iterator, "close", None)
    if callable(closing):
        closing()
