"""Arguments as callers give them, checked where the extension would say less of what is wrong."""

from collections.abc import Sequence
from numbers import Real

MOST_32_BITS = 2**32 - 1
"""The largest number of things that are counted with 32 bits."""
MOST_64_BITS = 2**64 - 1
"""The largest seed."""


def whole(given: float, name: str, least: int, most: int) -> int:
    """The argument ``name``, a whole number from ``least`` to ``most``; 5e6 is one, too.

    Raises:
        ValueError: If it is none.

    """
    if isinstance(given, Real) and least <= given <= most and given == int(given):
        return int(given)
    raise ValueError(f"{name}: {given!r} is no whole number from {least} to {most}")


def whole_pair(given: Sequence[float], name: str, least: int, most: int) -> tuple[int, int]:
    """The argument ``name``, two whole numbers from ``least`` to ``most``.

    Raises:
        ValueError: If it is something else.

    """
    if not isinstance(given, Sequence) or len(given) != 2:
        raise ValueError(f"{name}: {given!r} is no pair of whole numbers")
    return whole(given[0], name, least, most), whole(given[1], name, least, most)


def numbers(given: float | Sequence[float] | None, name: str) -> list[float]:
    """The argument ``name``, none, one or many numbers, as a list.

    Raises:
        ValueError: If there is something else in it, such as text, which is a sequence, too, but of letters.

    """
    if given is None:
        return []
    many = [given] if isinstance(given, str | bytes) or not isinstance(given, Sequence) else given
    if not all(isinstance(one, Real) for one in many):
        raise ValueError(f"{name}: {given!r} is neither a number nor a sequence of numbers")
    return [float(one) for one in many]
