"""``python -m entrabot_sandbox``."""

import sys

from entrabot_sandbox.command import main

if __name__ == "__main__":
    sys.exit(main())
