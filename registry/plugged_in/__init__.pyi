# The methods that other packages' operators add to all pipes: none that are known of here.
#
# `penstock stubs` writes modules of these names that have those of all installed plug-ins, for type checkers and
# editors. It replaces these here, or writes to a folder that they look into before they look here.

from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)

class IterMethods(Generic[T_co]): ...
class MapMethods(Generic[T_co]): ...
