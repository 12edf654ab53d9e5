"""A fork server imports this first. It switches garbage collection off until all else is imported.

Collecting garbage during the imports takes 0.2 s and finds nothing. The module is not in `penstock`, which imports
torch.
"""

import gc

gc.disable()
