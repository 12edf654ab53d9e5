"""`python -m penstock.cli`, the same command line."""

import sys

from . import main

sys.exit(main())
