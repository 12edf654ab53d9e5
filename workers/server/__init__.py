"""A fork server imports this first. To collect garbage while it imports torch would take 0.2 s, and find none.

Importing any module of `penstock` would import torch before it.
"""

import gc

gc.disable()
try:
    import penstock  # noqa: F401
finally:
    gc.freeze()  # or the next collection would look at all that was imported
    gc.enable()
