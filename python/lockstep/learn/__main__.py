"""`lockstep train` and `lockstep export`, for which `lockstep-train` and `lockstep-export` are other names."""

import sys

from lockstep.learn import ALGORITHMS
from lockstep.module_command import run_module


def main(arguments: list[str] | None = None) -> int:
    """Trains what the first argument names; gives the exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    return run_module("lockstep train", "lockstep.learn", ALGORITHMS, "algorithm", words)


def export(arguments: list[str] | None = None) -> int:
    """Writes the model of a training run again, from its last checkpoint; gives the exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    if not words or words[0] in ("-h", "--help"):
        print("usage: lockstep export DIR\n\nwrites the model of a training run again, from its last checkpoint")
        return 0 if words else 2
    from lockstep.learn.training import algorithm_of  # noqa: PLC0415 -- takes PyTorch

    try:
        name = algorithm_of(words[0])
    except (OSError, ValueError) as error:
        print(f"lockstep export: {error}", file=sys.stderr)
        return 1
    return main([name, "--output", words[0], "--export"])


if __name__ == "__main__":
    sys.exit(main())
