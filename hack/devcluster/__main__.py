"""`python -m devcluster` is `hack/dev`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from devcluster import kubectl
from devcluster.errors import ClusterError


def main(arguments: Sequence[str]) -> int:
    ours, theirs = split(arguments)
    try:
        if "kubectl" in ours:
            kubectl.become(ours, theirs)
        # kubectl is typed all day and must not wait for what the other commands import.
        from devcluster import cli  # noqa: PLC0415

        return cli.run(ours)
    except ClusterError as error:
        print(f"hack/dev: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("hack/dev: interrupted", file=sys.stderr)
    return 1


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Ours, and what stands after `kubectl`: that is passed on as it is, options and all."""
    position = next((i for i, word in enumerate(arguments) if word == "kubectl"), len(arguments))
    return list(arguments[: position + 1]), list(arguments[position + 1 :])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
