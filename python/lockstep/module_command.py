"""Commands whose first argument names a module of a package: trainings, studies, session reports."""

import argparse
import importlib
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, TextIO

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
    """Runs ``main`` of the module named by the first of ``words`` with the others; returns the exit status.

    ``command`` is the command's name. ``meanings`` describes the modules of ``package``. ``kind`` is the noun for
    them. ``extra`` installs their requirements.
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

    return run_reporting_errors(command, run, extra=extra)


def run_entry(module: str, entry: str, extra: str, *, command: str = "lockstep") -> int:
    """Runs the function ``entry`` of ``module``, as the `lockstep` command does; returns the exit status.

    ``extra`` of the package installs the modules that it imports; ``command`` is the name in errors.
    """

    def run() -> int:
        status: int = getattr(importlib.import_module(module), entry)()
        return status

    return run_reporting_errors(command, run, extra=extra)


def run_reporting_errors(command: str, run: Callable[[], int], *, extra: str) -> int:
    """Returns the exit status of ``run``; reports an error in one line on standard error."""
    try:
        return run()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        # Tables and charts require the extra `lab` only, not the one of trainings.
        wanted = next((name for name in ("lab", extra) if missing in EXTRAS[name]), None)
        if wanted is None and missing not in ALWAYS:
            raise
        origin = "" if wanted is None else f", of the extra `{wanted}`,"
        print(
            f"{command}: {error.name}{origin} is missing; install it with: {install_command(wanted)}", file=sys.stderr
        )
        return 1
    except KeyboardInterrupt:
        print(f"\n{command}: interrupted; run the same command again to resume", file=sys.stderr)
        return 130
    except (OSError, ValueError) as error:
        print_error(command, error)
        return 1


def print_error(command: str, error: object) -> None:
    """Prints ``error`` on standard error, after the name of the command; see `printable`."""
    print_text(f"{command}: {error}")


class ArgumentParser(argparse.ArgumentParser):
    """A parser of arguments whose errors escape their control characters; see `printable`."""

    def error(self, message: str) -> NoReturn:
        """Reports ``message`` and ends the program."""
        super().error(printable(message))


def print_text(text: str, file: TextIO | None = None) -> None:
    """Prints ``text`` with names or contents of files, on standard error or to ``file``; see `printable`."""
    print(printable(text), file=sys.stderr if file is None else file)


def printable(text: str) -> str:
    """``text`` with its control characters as escapes, except line breaks and tabs.

    A terminal obeys control sequences, so text of files and their names must pass through here on its way to one.
    """

    def is_harmless(letter: str) -> bool:
        return letter.isprintable() or letter in "\n\t" or unicodedata.category(letter) == "Zs"

    return "".join(letter if is_harmless(letter) else repr(letter)[1:-1] for letter in text)


def _usage(command: str, meanings: Mapping[str, str], kind: str) -> str:
    width = max(map(len, meanings))
    lines = [f"  {name:{width}}   {meaning}" for name, meaning in meanings.items()]
    plural = "studies" if kind == "study" else f"{kind}s"
    return "\n".join([f"usage: {command} {kind.upper()} [--help] ...", "", f"{plural}:", *lines])
