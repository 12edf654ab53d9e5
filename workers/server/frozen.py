"""A fork server imports this last, so that its processes share the memory of what it imported before.

Their garbage collectors pass over it. To look at an object is to write to it, and so to copy it.
"""

import gc

gc.freeze()
