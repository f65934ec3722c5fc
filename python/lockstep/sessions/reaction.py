"""How codecs follow the transport: bit rates, how far they are apart, and how long a codec takes to follow.

Rows are read in parts of `PART`, so that memory does not grow with the logs; each column is read once.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy
import polars

Integers: TypeAlias = numpy.ndarray[Any, numpy.dtype[numpy.int64]]
"""Whole numbers of 64 bits."""
Numbers: TypeAlias = numpy.ndarray[Any, numpy.dtype[numpy.float64]]
"""Numbers."""

PART = 2_000_000
"""Rows that are in memory at once."""

CHANGE = 0.6
"""A second in which the transport's rate is at most this share of that in the second before is a drop, as in
``lockstep sources``. Of drops in seconds that follow each other only the first counts."""
REDUCED = 1.05
"""The codec has followed a drop when it makes no more than this share of the transport's rate."""
RECOVERED = 0.7
"""A rate has recovered when it is this share of its mean over the `BEFORE` seconds before the drop."""
BEFORE = 5
"""Those seconds."""
LONGEST = 600
"""What takes longer than so many seconds is not waited for."""

BIN_BPS = 5_000
"""Distributions of bit rates are counted in bins of this width: a quantile is that exact."""
BINS = 4_000
"""The last bin is open: 20 Mb/s and more."""
APART_BINS = 501
"""How far apart, in percent of the transport's rate, from -100 to 400; the last bin is open."""

NOT_FOLLOWED = -1
"""In the place of a time: it did not come to that within the session, or within `LONGEST`."""


@dataclass
class Reaction:
    """What the rows of one kind of codec come to."""

    codec: Integers = field(default_factory=lambda: numpy.zeros(BINS + 1, numpy.int64))
    """Seconds whose codec rate is in each bin."""
    transport: Integers = field(default_factory=lambda: numpy.zeros(BINS + 1, numpy.int64))
    apart: Integers = field(default_factory=lambda: numpy.zeros(APART_BINS, numpy.int64))
    """Seconds in which codec and transport are so far apart."""
    drops: int = 0
    reductions: Integers = field(default_factory=lambda: numpy.zeros(LONGEST + 2, numpy.int64))
    """Drops after which the codec had followed after so many seconds; the last is those that it has not followed."""
    recoveries: Integers = field(default_factory=lambda: numpy.zeros(LONGEST + 2, numpy.int64))
    transport_recoveries: Integers = field(default_factory=lambda: numpy.zeros(LONGEST + 2, numpy.int64))


@dataclass(frozen=True)
class Drops:
    """The drops of some sessions: the row of each, and how long after it was followed and recovered from, seconds."""

    rows: Integers
    reduction: Integers
    recovery: Integers
    transport_recovery: Integers


def parts(files: list[Path], counts: list[int], columns: list[str]) -> Iterator[list[Integers]]:
    """The columns of `files`, which have `counts` rows, a part at a time.

    Sessions are whole, but for those longer than a part. What is not known is -1.
    """
    kept: list[Integers] = []
    for table in _tables(files, counts, columns):
        now = [table[name].fill_null(-1).to_numpy() for name in columns]
        now = [numpy.concatenate(pair) for pair in zip(kept, now, strict=True)] if kept else now
        # The last session may go on in the next part.
        last = _begin_of_last(now[0])
        if last > 0:
            yield [values[:last] for values in now]
        kept = [values[last:] for values in now]
        if len(kept[0]) > 2 * PART:
            yield kept
            kept = []
    if kept:
        yield kept


def _begin_of_last(session: Integers) -> int:
    other = numpy.flatnonzero(session != session[-1])
    return int(other[-1]) + 1 if len(other) > 0 else 0


def _tables(files: list[Path], counts: list[int], columns: list[str]) -> Iterator[polars.DataFrame]:
    """The rows of the files in order, many small files at once and large ones in parts."""
    waiting: list[Path] = []
    rows = 0
    for file, count in zip(files, counts, strict=True):
        if count > PART:
            if waiting:
                yield polars.read_parquet(waiting, columns=columns)
                waiting, rows = [], 0
            for start in range(0, count, PART):
                yield polars.scan_parquet(file).select(columns).slice(start, PART).collect()
            continue
        if rows + count > PART and waiting:
            yield polars.read_parquet(waiting, columns=columns)
            waiting, rows = [], 0
        if count > 0:
            waiting.append(file)
            rows += count
    if waiting:
        yield polars.read_parquet(waiting, columns=columns)


def drops(session: Integers, codec: Integers, transport: Integers) -> Drops:
    """The drops of the transport's rate in rows of whole sessions, and how long the codec takes after each."""
    count = len(session)
    starts = numpy.flatnonzero(numpy.concatenate(([True], session[1:] != session[:-1])))
    ends = numpy.append(starts[1:], count)
    falls = numpy.zeros(count, bool)
    known = (transport[1:] >= 0) & (transport[:-1] > 0) & (codec[1:] >= 0)
    falls[1:] = known & (transport[1:] <= CHANGE * transport[:-1])
    falls[starts] = False
    falls[1:] &= ~falls[:-1]
    rows = numpy.flatnonzero(falls)
    of = numpy.searchsorted(starts, rows, side="right") - 1
    start, end = starts[of], ends[of]
    reduction = _first(rows, numpy.zeros_like(rows), end, lambda _, row: codec[row] <= REDUCED * transport[row])
    before = _mean_before(codec, rows, start)
    # Until it has followed it has not fallen: what it makes then is no recovery.
    begun = numpy.where(reduction >= 0, reduction + 1, LONGEST + 1)
    recovery = _first(rows, begun, end, lambda drop, row: codec[row] >= RECOVERED * before[drop])
    transport_before = _mean_before(transport, rows, start)
    transport_recovery = _first(
        rows, numpy.ones_like(rows), end, lambda drop, row: transport[row] >= RECOVERED * transport_before[drop]
    )
    return Drops(rows, reduction, recovery, transport_recovery)


def _mean_before(values: Integers, rows: Integers, start: Integers) -> Numbers:
    total, count = numpy.zeros(len(rows)), numpy.zeros(len(rows))
    for back in range(1, BEFORE + 1):
        there = rows - back >= start
        value = values[numpy.maximum(rows - back, 0)]
        there &= value >= 0
        total += numpy.where(there, value, 0)
        count += there
    return total / numpy.maximum(count, 1)


def _first(rows: Integers, begun: Integers, end: Integers, holds: Any) -> Integers:
    """How many seconds after each drop `holds` first, from `begun` on; `NOT_FOLLOWED` if not before `end`."""
    found = numpy.full(len(rows), NOT_FOLLOWED, numpy.int64)
    open_drops = numpy.arange(len(rows))
    wait = 0
    while len(open_drops) > 0 and wait <= LONGEST:
        open_drops = open_drops[rows[open_drops] + wait < end[open_drops]]
        asked = open_drops[begun[open_drops] <= wait]
        good = asked[holds(asked, rows[asked] + wait)]
        found[good] = wait
        open_drops = open_drops[found[open_drops] == NOT_FOLLOWED]
        wait += 1
    return found


def add(totals: list[Reaction], kind: Integers, session: Integers, codec: Integers, transport: Integers) -> None:
    """Adds rows of whole sessions to the totals of their kinds of codec: `kind` has each row's place in `totals`."""
    known = (codec >= 0) & (transport > 0)
    of, rate, target = kind[known], codec[known], transport[known]
    kinds = len(totals)

    def counted(bins: Integers, size: int) -> Integers:
        return numpy.bincount(of * size + bins, minlength=kinds * size).reshape(kinds, size)

    codecs = counted(numpy.minimum(rate // BIN_BPS, BINS), BINS + 1)
    transports = counted(numpy.minimum(target // BIN_BPS, BINS), BINS + 1)
    percent = (100.0 * (rate - target) / target).astype(numpy.int64) + 100
    aparts = counted(numpy.clip(percent, 0, APART_BINS - 1), APART_BINS)
    found = drops(session, codec, transport)
    of = kind[found.rows]
    for place, total in enumerate(totals):
        total.codec += codecs[place]
        total.transport += transports[place]
        total.apart += aparts[place]
        own = of == place
        total.drops += int(own.sum())
        for times, sums in (
            (found.reduction, total.reductions),
            (found.recovery, total.recoveries),
            (found.transport_recovery, total.transport_recoveries),
        ):
            waits = numpy.where(times[own] == NOT_FOLLOWED, LONGEST + 1, times[own])
            numpy.add(sums, numpy.bincount(waits, minlength=LONGEST + 2), out=sums)


def measure(files: list[Path], counts: list[int], sessions: Integers, kinds: Integers, names: int) -> list[Reaction]:
    """The totals of each of `names` kinds of codec over the rows of `files`.

    `sessions` are numbers in ascending order, and `kinds` the place of each one's codec.
    """
    totals = [Reaction() for _ in range(names)]
    for session, codec, transport in parts(files, counts, ["session", "codec_bps", "transport_bps"]):
        begins = numpy.concatenate(([True], session[1:] != session[:-1]))
        starts = numpy.flatnonzero(begins)
        place = numpy.minimum(numpy.searchsorted(sessions, session[starts]), len(sessions) - 1)
        kind = numpy.repeat(kinds[place], numpy.diff(numpy.append(starts, len(session))))
        add(totals, kind, session, codec.astype(numpy.int64), transport.astype(numpy.int64))
    return totals


def quantile(counts: Integers, share: float) -> int | None:
    """The first bin until which `share` of the counts are; none of nothing."""
    total = int(counts.sum())
    if total == 0:
        return None
    return int(numpy.searchsorted(numpy.cumsum(counts), max(1, share * total), side="left"))
