"""Argument types of command lines: numbers within bounds."""

import argparse
import math
import sys
from collections.abc import Callable


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """The type of an argument that is a whole number from ``least`` to ``most``."""
    words = f"a whole number of at least {least}" + ("" if most is None else f" and at most {most}")

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least or (most is not None and value > most):
            raise argparse.ArgumentTypeError(f"{text!r} is not {words}")
        return value

    return read


def real(least: float, most: float = sys.float_info.max, *, open_ends: str = "") -> Callable[[str], float]:
    """The type of an argument that is a number from ``least`` to ``most``; NaN is refused.

    ``open_ends`` names the bound that is itself excluded: ``least``, ``most``, or neither.
    """
    lower = f"more than {least:g}" if open_ends == "least" else f"at least {least:g}"
    upper = f"less than {most:g}" if open_ends == "most" else f"at most {most:g}"
    words = f"a number of {lower}" + ("" if most >= sys.float_info.max else f" and {upper}")

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        excluded = {"least": least, "most": most}.get(open_ends)
        if not least <= value <= most or value == excluded:
            raise argparse.ArgumentTypeError(f"{text!r} is not {words}")
        return value

    return read
