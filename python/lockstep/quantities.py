"""Formats numbers for readers: rounded, with units, and with a dash for a missing value."""

import math

MISSING = "–"
"""Text for a missing value."""


def number(value: float | None, digits: int = 2) -> str:
    """A number without unit, with `digits` after the point."""
    return MISSING if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def count(value: float | None) -> str:
    """A whole number with a thin space between thousands."""
    return MISSING if value is None else f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def percent(share: float | None) -> str:
    """A share of one as a percentage."""
    if share is None or not math.isfinite(share):
        return MISSING
    hundredths = 100.0 * share
    return _with_unit(hundredths, "%", 1 if 0 < abs(hundredths) < 10 else 0)


def milliseconds(value: float | None) -> str:
    """A time in milliseconds, in seconds from ten seconds on."""
    if value is None or not math.isfinite(value):
        return MISSING
    if value >= 10_000:
        return _with_unit(value / 1000, "s", 1)
    return _with_unit(value, "ms", 0 if value >= 10 else 1)


def seconds(value: float | None) -> str:
    """A time in seconds."""
    return MISSING if value is None or not math.isfinite(value) else _with_unit(value, "s", 2 if value < 10 else 1)


def frame_rate(value: float | None) -> str:
    """Frames a second."""
    return MISSING if value is None or not math.isfinite(value) else _with_unit(value, "frames/s", 1)


def decibels(value: float | None) -> str:
    """A level in dB."""
    return MISSING if value is None or not math.isfinite(value) else _with_unit(value, "dB", 1)


def bit_rate(bps: float | None) -> str:
    """A rate of bits a second, in Mb/s or kb/s."""
    if bps is None or not math.isfinite(bps):
        return MISSING
    return _with_unit(bps / 1e6, "Mb/s", 2) if bps >= 1e6 else _with_unit(bps / 1e3, "kb/s", 0)


def minutes_per_hour(value: float | None) -> str:
    """Minutes of something in an hour of call."""
    return MISSING if value is None or not math.isfinite(value) else _with_unit(value, "min/h", 2 if value < 10 else 1)


def _with_unit(value: float, unit: str, digits: int) -> str:
    return f"{value:.{digits}f}\N{NO-BREAK SPACE}{unit}"
