"""Checks of Python arguments where the errors of the extension would be less clear."""

from collections.abc import Sequence
from numbers import Real

MAX_UINT32 = 2**32 - 1
"""The largest count in 32 bits."""
MAX_UINT64 = 2**64 - 1
"""The largest seed."""


def whole(given: float, name: str, least: int, most: int) -> int:
    """The argument ``name`` as a whole number from ``least`` to ``most``; a float such as 5e6 is accepted.

    Raises:
        ValueError: If it is not such a number.

    """
    if isinstance(given, Real) and least <= given <= most and given == int(given):
        return int(given)
    raise ValueError(f"{name}: {given!r} is not a whole number from {least} to {most}")


def whole_pair(given: Sequence[float], name: str, least: int, most: int) -> tuple[int, int]:
    """The argument ``name`` as two whole numbers from ``least`` to ``most``.

    Raises:
        ValueError: If it is not such a pair.

    """
    if not isinstance(given, Sequence) or len(given) != 2:
        raise ValueError(f"{name}: {given!r} is not a pair of whole numbers")
    return whole(given[0], name, least, most), whole(given[1], name, least, most)


def numbers(given: float | Sequence[float] | None, name: str) -> list[float]:
    """The argument ``name`` as a list: no, one or many numbers.

    Raises:
        ValueError: If it contains anything else. A string is a sequence of characters and is refused, too.

    """
    if given is None:
        return []
    many = [given] if isinstance(given, str | bytes) or not isinstance(given, Sequence) else given
    if not all(isinstance(one, Real) for one in many):
        raise ValueError(f"{name}: {given!r} is neither a number nor a sequence of numbers")
    return [float(one) for one in many]
