"""The command `agentos`, also as `python -m agentos`: hands its arguments to the command-line interface."""

from __future__ import annotations

import sys


def main() -> int:
    from agentos.interfaces.cli import main as run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
