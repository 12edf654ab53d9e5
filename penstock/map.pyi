"""The map-style operators."""

from .pipes.map import *  # noqa: F403
