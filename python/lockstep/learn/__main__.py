"""`lockstep train` and `lockstep export`, also named `lockstep-train` and `lockstep-export`."""

import sys
from pathlib import Path

from lockstep.learn import ALGORITHMS
from lockstep.learn.arguments import parser, read_setting
from lockstep.module_command import ArgumentParser, print_error, run_module, run_reporting_errors


def main(arguments: list[str] | None = None) -> int:
    """Trains the algorithm of the first argument; returns the exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    if words and words[0] in ALGORITHMS:
        # Help and argument errors must not import PyTorch, which takes seconds and may be missing.
        options = parser(words[0]).parse_args(words[1:])
        if any((options.seeds, options.search, options.workers, options.on)):
            return run_reporting_errors("lockstep train", lambda: _search(words[0], words[1:]), extra="learn")
    return run_module("lockstep train", "lockstep.learn", ALGORITHMS, "algorithm", words)


def _search(algorithm: str, words: list[str]) -> int:
    from lockstep.learn import search  # noqa: PLC0415 -- importing tables and plots takes a second

    return search.run(algorithm, words)


def export(arguments: list[str] | None = None) -> int:
    """Writes the model of a training run again, from its last checkpoint; returns the exit status."""
    made = ArgumentParser(
        prog="lockstep export",
        description="Writes the model of a training run again, from its last checkpoint.",
        allow_abbrev=False,
    )
    made.add_argument("folder", type=Path, metavar="DIR", help="folder of the run")
    folder = made.parse_args(arguments).folder
    try:
        name = read_setting(folder)["algorithm"]
    except (OSError, ValueError) as error:
        print_error("lockstep export", error)
        return 1
    return main([name, "--output", str(folder), "--export"])


if __name__ == "__main__":
    sys.exit(main())
