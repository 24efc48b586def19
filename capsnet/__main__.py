"""`python -m capsnet` is the command line."""

import sys

from capsnet.cli import main

sys.exit(main())
