# The methods that other packages' operators add to all pipes: none that are known of here.
#
# `penstock stubs PACKAGE` writes a module of this name that has those of PACKAGE, for type checkers and editors, which
# look into the folder that it is written to before they look here.

from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)

class IterMethods(Generic[T_co]): ...
class MapMethods(Generic[T_co]): ...
