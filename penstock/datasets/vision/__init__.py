"""The classic data sets of images."""

from . import cifar, digits, emnist, fer2013, mnist, pcam, stl10, svhn

__all__ = ["cifar", "digits", "emnist", "fer2013", "mnist", "pcam", "stl10", "svhn"]
