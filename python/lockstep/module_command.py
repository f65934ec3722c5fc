"""Commands whose first word names a module of a package: training, and studies of what is learned."""

import importlib
import sys
from collections.abc import Mapping, Sequence

EXTRA = ("torch", "gymnasium", "tensorboard", "onnx", "onnxscript")
"""What the extra `learn` installs."""


def run_module(command: str, package: str, meanings: Mapping[str, str], kind: str, words: Sequence[str]) -> int:
    """Runs ``main`` of the module that the first of ``words`` names with the others; gives the exit status.

    ``command`` is what people type, ``meanings`` has the modules of ``package``, and ``kind`` says what they are.
    """
    if not words or words[0] in ("-h", "--help"):
        print(_usage(command, meanings, kind))
        return 0 if words else 2
    if words[0] not in meanings:
        print(f"{command}: there is no {kind} called {words[0]!r}\n{_usage(command, meanings, kind)}", file=sys.stderr)
        return 2
    try:
        module = importlib.import_module(f"{package}.{words[0]}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        extra = "install it with: pip install 'lockstep-video[learn]'"
        print(f"{command}: {error.name} is missing, which training takes; {extra}", file=sys.stderr)
        return 1
    try:
        status: int = module.main(list(words[1:]))
    except KeyboardInterrupt:
        print(f"\n{command}: interrupted; the same command goes on from where it was", file=sys.stderr)
        return 130
    except (OSError, ValueError) as error:
        print(f"{command}: {error}", file=sys.stderr)
        return 1
    return status


def _usage(command: str, meanings: Mapping[str, str], kind: str) -> str:
    width = max(map(len, meanings))
    lines = [f"  {name:{width}}   {meaning}" for name, meaning in meanings.items()]
    plural = "studies" if kind == "study" else f"{kind}s"
    return "\n".join([f"usage: {command} {kind.upper()} [--help] ...", "", f"{plural}:", *lines])
