"""`python -m solvent` is the command `solvent`."""

import sys

from solvent.cli import main

sys.exit(main())
