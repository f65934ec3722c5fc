"""The ruler: capture and display times of frames, and the delays that follow from them.

All times are seconds of the machine's clock (`CLOCK_MONOTONIC`).
"""

import bisect
import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SCHEDULE_SECONDS = 2.0
"""Window for the minimum offset of the camera, s: clocks drift by less than 0.1 ms in that time."""


@dataclass(frozen=True, slots=True)
class Sight:
    """A sighting of a picture: the number in its barcodes, and the time."""

    number: int
    at: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """Capture times: frame n at n / `rate` plus the offset valid for that frame.

    Offsets change when the camera falls behind: Chromium's file camera skips nothing but continues later.
    """

    rate: float
    numbers: tuple[int, ...]
    offsets: tuple[float, ...]

    def at(self, number: int) -> float:
        """Capture time of the frame with this number."""
        index = max(bisect.bisect_right(self.numbers, number) - 1, 0)
        return self.offsets[index] + number / self.rate

    def slipped(self, first: int, last: int) -> float:
        """Delay of frame ``last`` relative to the nominal rate, if ``first`` was on time, s."""
        return self.at(last) - self.at(first) - (last - first) / self.rate


@dataclass(frozen=True, slots=True)
class Measured:
    """A captured frame: its number, its capture and display times, and its video delay.

    `waited` is the paper's video delay, until this or a later frame is displayed (Salsify, section 5.1). If no such
    frame was displayed, it ends with the reading and is a lower bound; then `open` is true.
    """

    number: int
    captured_at: float
    shown_at: float | None
    waited: float
    open: bool


def unrolled(sights: Iterable[Sight], length: int, rate: float) -> list[Sight]:
    """Sights with continuous numbers, although a clip of ``length`` frames repeats.

    The barcode has a frame's number in the clip. Of the possible numbers, this takes the one nearest to the expected
    number at the sight's time. That is correct while delays are shorter than half the clip.
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
    """The camera's schedule from its own preview, and the lateness of each sight relative to it (s).

    A reader is never early and often late. A camera that has fallen behind does not catch up. So the offset of a frame
    is the minimum over the sights in the next `SCHEDULE_SECONDS`. The last frames have few later sights and are less
    certain, so reading continues after the last frame that counts.

    Raises:
        ValueError: If there are no sights.

    """
    if not previews:
        raise ValueError("cannot read any barcode in the camera's preview")
    ordered = sorted(previews, key=lambda sight: sight.number)
    found = [sight.at - sight.number / rate for sight in ordered]
    window = max(1, round(SCHEDULE_SECONDS * rate))
    numbers = [sight.number for sight in ordered]
    # Sliding-window minimum ahead, with a queue of offsets that are smaller than all before them.
    least: deque[int] = deque()
    offsets = [0.0] * len(found)
    for index in range(len(found) - 1, -1, -1):
        while least and found[least[0]] >= found[index]:
            least.popleft()
        least.appendleft(index)
        while numbers[least[-1]] > numbers[index] + window:
            least.pop()
        offsets[index] = found[least[-1]]
    schedule = Schedule(rate, tuple(numbers), tuple(offsets))
    return schedule, [sight.at - schedule.at(sight.number) for sight in ordered]


def measure(schedule: Schedule, shown: Sequence[Sight], first: int, last: int, end: float) -> list[Measured]:
    """The captured frames from ``first`` to ``last``, with display times of ``shown`` until ``end``."""
    first_shown: dict[int, float] = {}
    for sight in sorted(shown, key=lambda sight: sight.at):
        if sight.at <= end:
            first_shown.setdefault(sight.number, sight.at)
    numbers = sorted(first_shown)
    # For each number, the earliest time at which that or a later frame was displayed.
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
    """The linearly interpolated quantile; NaN without values."""
    ordered = sorted(values)
    if not ordered:
        return math.nan
    at = share * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def series(
    times: Sequence[float], amounts: Sequence[float], start: float, end: float, bin_seconds: float
) -> list[float]:
    """Amounts per second in bins of ``bin_seconds`` between ``start`` and ``end``."""
    bins = [0.0] * max(1, math.ceil((end - start) / bin_seconds - 1e-9))
    for at, amount in zip(times, amounts, strict=True):
        index = math.floor((at - start) / bin_seconds)
        if 0 <= index < len(bins):
            bins[index] += amount
    return [amount / bin_seconds for amount in bins]
