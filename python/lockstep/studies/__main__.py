"""`lockstep study NAME`, for the studies in this package."""

import sys

from lockstep.module_command import run_module
from lockstep.studies import STUDIES


def main(arguments: list[str] | None = None) -> int:
    """Runs the study of the first argument; returns the exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    return run_module("lockstep study", "lockstep.studies", STUDIES, "study", words)


if __name__ == "__main__":
    sys.exit(main())
