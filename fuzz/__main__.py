"""Run the fuzzer: `python -m fuzz --minutes 10`."""

import sys

from fuzz.runner import main

if __name__ == "__main__":
    sys.exit(main())
