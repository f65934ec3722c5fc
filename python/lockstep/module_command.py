"""Commands whose first word names a module of a package: training, studies, reports of sessions."""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence

from lockstep.distribution import install_command

EXTRAS = {
    "gym": ("gymnasium",),
    "lab": ("altair", "jinja2", "msgspec", "polars", "vl_convert"),
    "learn": ("torch", "filelock", "gymnasium", "tensorboard", "onnx", "onnxscript"),
    "sessions": ("duckdb",),
    "testbed": ("aiortc", "av", "playwright"),
}
"""Modules that the extras of the package install."""
ALWAYS = ("numpy",)
"""Modules that the package itself installs."""


def run_module(  # noqa: PLR0913
    command: str, package: str, meanings: Mapping[str, str], kind: str, words: Sequence[str], *, extra: str = "learn"
) -> int:
    """Runs ``main`` of the module that the first of ``words`` names with the others; gives the exit status.

    ``command`` is what people type, ``meanings`` has the modules of ``package``, and ``kind`` says what they are. What
    they take besides is in ``extra`` of the package.
    """
    if not words or words[0] in ("-h", "--help"):
        print(_usage(command, meanings, kind))
        return 0 if words else 2
    if words[0] not in meanings:
        print(f"{command}: there is no {kind} called {words[0]!r}\n{_usage(command, meanings, kind)}", file=sys.stderr)
        return 2

    def run() -> int:
        status: int = importlib.import_module(f"{package}.{words[0]}").main(list(words[1:]))
        return status

    return run_told(command, run, extra=extra)


def run_entry(module: str, entry: str, extra: str, *, command: str = "lockstep") -> int:
    """Runs the function ``entry`` of ``module``, as the `lockstep` command does; gives the exit status.

    ``extra`` of the package installs the modules that it imports, and ``command`` is the name in errors.
    """

    def run() -> int:
        status: int = getattr(importlib.import_module(module), entry)()
        return status

    return run_told(command, run, extra=extra)


def run_told(command: str, run: Callable[[], int], *, extra: str) -> int:
    """Gives the exit status of ``run``; what goes wrong there is one line on standard error."""
    try:
        return run()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        # The laboratory's tables and charts do not require what its trainings do.
        wanted = next((name for name in ("lab", extra) if missing in EXTRAS[name]), None)
        if wanted is None and missing not in ALWAYS:
            raise
        origin = "" if wanted is None else f", of the extra `{wanted}`,"
        print(
            f"{command}: {error.name}{origin} is missing; install it with: {install_command(wanted)}", file=sys.stderr
        )
        return 1
    except KeyboardInterrupt:
        print(f"\n{command}: interrupted; the same command goes on from where it was", file=sys.stderr)
        return 130
    except (OSError, ValueError) as error:
        print(f"{command}: {error}", file=sys.stderr)
        return 1


def _usage(command: str, meanings: Mapping[str, str], kind: str) -> str:
    width = max(map(len, meanings))
    lines = [f"  {name:{width}}   {meaning}" for name, meaning in meanings.items()]
    plural = "studies" if kind == "study" else f"{kind}s"
    return "\n".join([f"usage: {command} {kind.upper()} [--help] ...", "", f"{plural}:", *lines])
