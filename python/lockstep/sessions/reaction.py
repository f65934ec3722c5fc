"""Reaction of codecs to the transport: bit rates, their difference, and the time that a codec needs to follow.

Rows are read in parts of `PART`, so that memory does not grow with the logs. Each column is read once.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy
import polars

Integers: TypeAlias = numpy.ndarray[Any, numpy.dtype[numpy.int64]]
"""Array of 64-bit integers."""
Numbers: TypeAlias = numpy.ndarray[Any, numpy.dtype[numpy.float64]]
"""Array of 64-bit floats."""

PART = 2_000_000
"""Number of rows in memory at once."""

CHANGE = 0.6
"""Ratio to the previous second's transport rate at or below which a second is a drop, as in ``lockstep sources``.
Of consecutive drops only the first counts."""
REDUCED = 1.05
"""The codec has followed a drop when its rate is at most this multiple of the transport's."""
RECOVERED = 0.7
"""A rate has recovered at this share of its mean over the `BEFORE` seconds before the drop."""
BEFORE = 5
"""Number of seconds before a drop for the mean rate."""
MAX_SECONDS = 600
"""Longest time after a drop that is observed, seconds."""

BIN_BPS = 5_000
"""Bin width of the distributions of bit rates, and so the precision of quantiles."""
BINS = 4_000
"""Number of bins; one more counts rates from 20 Mb/s on."""
APART_BINS = 501
"""Bins for differences in percent of the transport's rate, from -100 to 400; the last bin is open."""

NOT_FOLLOWED = -1
"""Value instead of a time: the event did not happen within the session or within `MAX_SECONDS`."""


@dataclass
class Reaction:
    """Totals of the rows of one kind of codec."""

    codec: Integers = field(default_factory=lambda: numpy.zeros(BINS + 1, numpy.int64))
    """Number of seconds whose codec rate is in each bin."""
    transport: Integers = field(default_factory=lambda: numpy.zeros(BINS + 1, numpy.int64))
    apart: Integers = field(default_factory=lambda: numpy.zeros(APART_BINS, numpy.int64))
    """Number of seconds whose difference of codec and transport is in each bin."""
    drops: int = 0
    reductions: Integers = field(default_factory=lambda: numpy.zeros(MAX_SECONDS + 2, numpy.int64))
    """Number of drops by the seconds until the codec followed; the last bin counts those not followed."""
    recoveries: Integers = field(default_factory=lambda: numpy.zeros(MAX_SECONDS + 2, numpy.int64))
    transport_recoveries: Integers = field(default_factory=lambda: numpy.zeros(MAX_SECONDS + 2, numpy.int64))


@dataclass(frozen=True)
class Drops:
    """Drops of some sessions: the row of each, and the times to the reduction and the recoveries, seconds."""

    rows: Integers
    reduction: Integers
    recovery: Integers
    transport_recovery: Integers


def parts(files: list[Path], counts: list[int], columns: list[str]) -> Iterator[list[Integers]]:
    """Yields the columns of `files`, which have `counts` rows, in parts.

    Parts contain whole sessions, except for sessions longer than a part. Missing values are -1.
    """
    kept: list[Integers] = []
    for table in _tables(files, counts, columns):
        now = [table[name].fill_null(-1).to_numpy() for name in columns]
        now = [numpy.concatenate(pair) for pair in zip(kept, now, strict=True)] if kept else now
        # The last session may continue in the next part.
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
    """Yields the rows of the files in order: many small files at once, large ones in parts."""
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
    """Drops of the transport's rate in rows of whole sessions, with the times until the codec reacts."""
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
    # Before the codec has followed a drop, its rate is not a recovery.
    begun = numpy.where(reduction >= 0, reduction + 1, MAX_SECONDS + 1)
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
    """Seconds from each drop to the first second from `begun` on where `holds`; `NOT_FOLLOWED` if none before `end`."""
    found = numpy.full(len(rows), NOT_FOLLOWED, numpy.int64)
    open_drops = numpy.arange(len(rows))
    wait = 0
    while len(open_drops) > 0 and wait <= MAX_SECONDS:
        open_drops = open_drops[rows[open_drops] + wait < end[open_drops]]
        asked = open_drops[begun[open_drops] <= wait]
        good = asked[holds(asked, rows[asked] + wait)]
        found[good] = wait
        open_drops = open_drops[found[open_drops] == NOT_FOLLOWED]
        wait += 1
    return found


def add(totals: list[Reaction], kind: Integers, session: Integers, codec: Integers, transport: Integers) -> None:
    """Adds rows of whole sessions to the totals of their codecs; `kind` is each row's index in `totals`."""
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
            waits = numpy.where(times[own] == NOT_FOLLOWED, MAX_SECONDS + 1, times[own])
            numpy.add(sums, numpy.bincount(waits, minlength=MAX_SECONDS + 2), out=sums)


def measure(files: list[Path], counts: list[int], sessions: Integers, kinds: Integers, names: int) -> list[Reaction]:
    """Totals of each of `names` kinds of codec over the rows of `files`.

    `sessions` are numbers in ascending order; `kinds` has the index of each one's codec.
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
    """The first bin up to which `share` of the counts lie; None without counts."""
    total = int(counts.sum())
    if total == 0:
        return None
    return int(numpy.searchsorted(numpy.cumsum(counts), max(1, share * total), side="left"))
