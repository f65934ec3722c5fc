"""The ruler: which frame was captured when, which was shown when, and what follows from that.

All times are seconds of one clock, that of the machine (`CLOCK_MONOTONIC`).
"""

import bisect
import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SCHEDULE_SECONDS = 2.0
"""How far ahead the least offset of the camera is looked for: clocks drift by less than 0.1 ms in that time."""


@dataclass(frozen=True, slots=True)
class Sight:
    """A picture that was seen: the number in its barcodes, and when."""

    number: int
    at: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """When the camera handed over each frame: frame n at n / `rate` and the offset that held then.

    Offsets change where the camera fell behind: Chromium's, which plays a file, leaves nothing out but goes on later.
    """

    rate: float
    numbers: tuple[int, ...]
    offsets: tuple[float, ...]

    def at(self, number: int) -> float:
        """When the frame with this number was captured."""
        index = max(bisect.bisect_right(self.numbers, number) - 1, 0)
        return self.offsets[index] + number / self.rate

    def slipped(self, first: int, last: int) -> float:
        """By how much later than its rate says frame ``last`` came, if ``first`` was in time, s."""
        return self.at(last) - self.at(first) - (last - first) / self.rate


@dataclass(frozen=True, slots=True)
class Measured:
    """A captured frame: its number, when it was captured and shown, and when it or a later one was shown.

    `waited` is the paper's delay (Salsify, section 5.1). Where nothing was shown any more it goes on until the reading
    ended, which is less than it was: `open` says so.
    """

    number: int
    captured_at: float
    shown_at: float | None
    waited: float
    open: bool


def unrolled(sights: Iterable[Sight], length: int, rate: float) -> list[Sight]:
    """Numbers that go on counting where a clip of ``length`` frames begins again.

    The barcode of a frame says its number in the clip. Of the numbers that it may stand for, the one is taken that is
    nearest to what the time since the first sight calls for; that is right as long as delays are shorter than half a
    clip.
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

    A reader is never early and often late, and a camera that has fallen behind does not catch up: so what holds for a
    frame is the least offset of the sights from it on, of `SCHEDULE_SECONDS`. That is less certain of the last frames,
    which have few sights after them: reading goes on after the last frame that counts.

    Raises:
        ValueError: If nothing was seen.

    """
    if not previews:
        raise ValueError("the camera's preview showed no picture with a barcode")
    ordered = sorted(previews, key=lambda sight: sight.number)
    found = [sight.at - sight.number / rate for sight in ordered]
    window = max(1, round(SCHEDULE_SECONDS * rate))
    numbers = [sight.number for sight in ordered]
    # The least offset ahead, by a queue of those that are less than all before them.
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


def series(
    times: Sequence[float], amounts: Sequence[float], start: float, end: float, bin_seconds: float
) -> list[float]:
    """Amounts a second in bins of ``bin_seconds`` between ``start`` and ``end``."""
    bins = [0.0] * max(1, math.ceil((end - start) / bin_seconds - 1e-9))
    for at, amount in zip(times, amounts, strict=True):
        index = math.floor((at - start) / bin_seconds)
        if 0 <= index < len(bins):
            bins[index] += amount
    return [amount / bin_seconds for amount in bins]
