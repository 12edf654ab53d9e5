"""`python -m penstock`, the same as the command `penstock`."""

import sys

from .cli import main

sys.exit(main())
