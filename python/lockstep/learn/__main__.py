"""`lockstep train` and `lockstep export`, for which `lockstep-train` and `lockstep-export` are other names."""

import importlib
import sys

from lockstep.learn import ALGORITHMS


def _usage() -> str:
    width = max(map(len, ALGORITHMS))
    lines = [f"  {name:{width}}   {meaning}" for name, meaning in ALGORITHMS.items()]
    return "\n".join(["usage: lockstep train ALGORITHM [--help] ...", "", "algorithms:", *lines])


def main(arguments: list[str] | None = None) -> int:
    """Trains what the first argument names; gives the exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    if not words or words[0] in ("-h", "--help"):
        print(_usage())
        return 0 if words else 2
    if words[0] not in ALGORITHMS:
        print(f"lockstep train: there is no algorithm called {words[0]!r}\n{_usage()}", file=sys.stderr)
        return 2
    try:
        module = importlib.import_module(f"lockstep.learn.{words[0]}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("torch", "gymnasium", "tensorboard", "onnx", "onnxscript"):
            raise
        extra = "install it with: pip install 'lockstep-video[learn]'"
        print(f"lockstep train: {error.name} is missing, which training takes; {extra}", file=sys.stderr)
        return 1
    try:
        status: int = module.main(words[1:])
    except KeyboardInterrupt:
        print("\nlockstep train: interrupted; the same command goes on from the last checkpoint", file=sys.stderr)
        return 130
    except (OSError, ValueError) as error:
        print(f"lockstep train: {error}", file=sys.stderr)
        return 1
    return status


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
