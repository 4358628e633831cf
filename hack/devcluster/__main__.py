"""`python -m devcluster` is `hack/dev`."""

import sys

from devcluster.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
