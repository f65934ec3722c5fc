"""The ruler: which frame was captured when, which was shown when, and what follows from that.

All times are seconds of one clock, that of the machine (`CLOCK_MONOTONIC`).
"""

import bisect
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

@dataclass(frozen=True, slots=True)
class Sight:
    """A picture that was seen: the number in its barcodes, and when."""

    number: int
    at: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """When the camera hands over each frame: frame n at `start` + n / `rate`."""

    start: float
    rate: float

    def at(self, number: int) -> float:
        """When the frame with this number is captured."""
        return self.start + number / self.rate


@dataclass(frozen=True, slots=True)
class Measured:
    """A captured frame: its number, when it was captured and shown, and when it or a later one was shown.

    `waited` is the paper's delay (Salsify, section 5.1). Where nothing was shown any more it goes on until the reading ended,
    which is less than it was: `open` says so.
    """

    number: int
    captured_at: float
    shown_at: float | None
    waited: float
    open: bool


def unrolled(sights: Iterable[Sight], length: int, rate: float) -> list[Sight]:
    """Numbers that go on counting where a clip of ``length`` frames begins again.

    The barcode of a frame says its number in the clip. Of the numbers that it may stand for, the one is taken that is nearest
    to what the time since the first sight calls for; that is right as long as delays are shorter than half a clip.
    """
    found: list[Sight] = []
    for sight in sights:
        if not found:
            found.append(sight)
            continue
        expected = found[0].number + (sight.at - found[0].at) * rate
        rounds = round((expected - sight.number) / length)
        found.append(Sight(sight.number + max(rounds, 0) * length, sight.at))
    return found


def fit_schedule(previews: Sequence[Sight], rate: float) -> tuple[Schedule, list[float]]:
    """The camera's schedule from what its own preview showed, and by how much each sight was late on it (s).

    The camera hands over frames at a steady rate, and a reader is never early but often late: so the schedule is the one that
    the earliest twentieth of the sights keeps.

    Raises:
        ValueError: If nothing was seen.

    """
    if not previews:
        raise ValueError("the camera's preview showed no picture with a barcode")
    starts = sorted(sight.at - sight.number / rate for sight in previews)
    schedule = Schedule(starts[len(starts) // 20], rate)
    return schedule, [sight.at - schedule.at(sight.number) for sight in previews]


def measure(schedule: Schedule, shown: Sequence[Sight], first: int, last: int, end: float) -> list[Measured]:
    """What became of each captured frame from ``first`` to ``last``, by what was ``shown`` until ``end``."""
    first_shown: dict[int, float] = {}
    for sight in sorted(shown, key=lambda sight: sight.at):
        first_shown.setdefault(sight.number, sight.at)
    numbers = sorted(first_shown)
    # By number, the earliest time at which that or any later frame was shown.
    earliest: list[float] = []
    for number in reversed(numbers):
        earliest.append(min(first_shown[number], earliest[-1] if earliest else math.inf))
    earliest.reverse()
    found = []
    for number in range(first, last + 1):
        at = bisect.bisect_left(numbers, number)
        is_open = at == len(numbers)
        until = end if is_open else earliest[at]
        captured = schedule.at(number)
        found.append(Measured(number, captured, first_shown.get(number), until - captured, is_open))
    return found


def quantile(values: Iterable[float], share: float) -> float:
    """The linearly interpolated quantile; NaN of nothing."""
    ordered = sorted(values)
    if not ordered:
        return math.nan
    at = share * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def series(times: Sequence[float], amounts: Sequence[float], start: float, end: float, bin_seconds: float) -> list[float]:
    """Amounts a second in bins of ``bin_seconds`` between ``start`` and ``end``."""
    bins = [0.0] * max(1, math.ceil((end - start) / bin_seconds - 1e-9))
    for at, amount in zip(times, amounts, strict=True):
        index = math.floor((at - start) / bin_seconds)
        if 0 <= index < len(bins):
            bins[index] += amount
    return [amount / bin_seconds for amount in bins]
