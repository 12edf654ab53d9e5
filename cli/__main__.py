"""`python -m penstock.cli` is the command line too."""

import sys

from . import main

sys.exit(main())
