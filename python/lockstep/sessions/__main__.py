"""``lockstep sessions report`` and ``lockstep sessions sql``."""

import sys

from lockstep.module_command import run_module
from lockstep.sessions import COMMANDS


def main(arguments: list[str] | None = None) -> int:
    """Runs the command of the first argument; returns the exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    return run_module("lockstep sessions", "lockstep.sessions", COMMANDS, "command", words, extra="sessions")


if __name__ == "__main__":
    sys.exit(main())
