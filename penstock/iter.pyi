"""The iterable operators."""

from .pipes.iter import *  # noqa: F403
