"""Data sets as chains: defined in a few lines, downloaded once, read by index or in order, by any number of workers.

`Dataset` and the decorator `dataset` define one of `Resource`s. `load(name, root)` returns one by its name, and
`list()` the names. `check_dataset` tests a definition. The classic ones are here, too: `SST2(root, split)`.
"""

import lazy_loader as _lazy

# The data sets that `__init__.pyi` lists are imported when they are asked for.
__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
