"""The session log of a run, with the columns of every other call (`docs/how-to/sessions.md`).

The link's packet log gives the traffic, and the ruler the displayed pictures. Both are the same for every program.
Round-trip times and the rates of codec and controller come from the program's own statistics.
"""

import math
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars

import lockstep
from lockstep.command import lockstep_command
from lockstep.sessions.log import labelled, session_number, write_session
from lockstep.testbed.link import LinkOutcome, LinkSpecification
from lockstep.testbed.machine import unix_offset
from lockstep.testbed.programs import Clip, OwnSession

KIND = "testbed"
HEADERS = 28
"""Bytes of IPv4 and UDP headers, which session logs do not count."""


@dataclass(frozen=True, slots=True)
class Log:
    """Folder of a run's log, the run's name, and its labels as in `--session-label`."""

    folder: Path
    name: tuple[str, ...]
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RunData:
    """Inputs of a run's log. Times are on the machine's clock."""

    clip: Clip
    specification: LinkSpecification | None
    linked: LinkOutcome
    frames: polars.DataFrame
    """Captured frames; their times are relative to `start`."""
    start: float
    seconds: float
    version: str
    own: OwnSession | None


def write(log: Log, data: RunData, *, counted: bool) -> None:
    """Writes the log of a run, seen from both ends.

    Raises:
        SessionError: If a label is invalid.
        OSError: If it cannot be written.

    """
    origin, table = rows(data)
    own, clip = data.own or OwnSession(data.start, polars.DataFrame()), data.clip
    known = {
        "session": session_number(KIND, *log.name),
        "kind": KIND,
        "seen_from": "both",
        "program": data.version or "unknown",
        "started_at_ms": round(1000 * (origin + unix_offset())),
        "controller": own.controller,
        "codec": own.codec,
        "width": clip.width,
        "height": clip.height,
        "frame_rate_mhz": round(1000 * clip.rate),
        **labelled({**log.labels, "counted": "yes" if counted else "no"}),
    }
    write_session(log.folder, known, table)


def rows(data: RunData) -> tuple[float, polars.DataFrame]:
    """The start of the first second, and one row for each whole second.

    If the program has its own seconds, the first one is the earliest of them that begins within the measurement.
    """
    own = data.own
    skipped = max(0, math.ceil(data.start - own.at - 1e-9)) if own is not None else 0
    origin = own.at + skipped if own is not None else data.start
    count = max(0, math.floor(data.start + data.seconds - origin + 1e-9))
    columns: dict[str, Sequence[float | None]] = {}
    if own is not None:
        columns = {
            name: (values := own.seconds[name].to_list()[skipped : skipped + count]) + [None] * (count - len(values))
            for name in own.seconds.columns
        }
    columns |= _shown(data, origin, count) | _carried(data, origin, count)
    table = polars.DataFrame(
        {
            name: [None if value is None or not math.isfinite(value) else round(value) for value in values]
            for name, values in columns.items()
        },
        schema=dict.fromkeys(columns, polars.Int64),
    )
    return origin, table


def _binned(times: polars.Series, amounts: polars.Series, origin: float, count: int) -> list[float]:
    # The last bin of a histogram includes its right edge.
    known = (times.is_not_null() & amounts.is_not_null() & (times < origin + count)).fill_null(value=False)
    weights = amounts.filter(known).cast(polars.Float64).to_numpy()
    edges = origin + np.arange(count + 1)
    return [float(total) for total in np.histogram(times.filter(known).to_numpy(), edges, weights=weights)[0]]


def _shown(data: RunData, origin: float, count: int) -> dict[str, Sequence[float | None]]:
    """Columns on pictures, from the ruler."""
    frames = data.frames.with_columns(polars.col("captured_at", "shown_at") + data.start)
    ones = polars.Series([1.0] * len(frames), dtype=polars.Float64)
    shown = _binned(frames["shown_at"], ones, origin, count)
    waits = _binned(frames["shown_at"], 1e6 * (frames["shown_at"] - frames["captured_at"]), origin, count)
    times = sorted(frames["shown_at"].drop_nulls().to_list())
    # A freeze belongs to the second in which it ends, so each second has the difference of the totals.
    until = [
        lockstep.freezes([at - data.start for at in times if at < origin + second], 1.0 / data.clip.rate)
        for second in range(count + 1)
    ]
    return {
        "frames_captured": _binned(frames["captured_at"], ones, origin, count),
        "frames_shown": shown,
        "delay_us": [wait / number if number else None for wait, number in zip(waits, shown, strict=True)],
        "stalls": [float(after[0] - before[0]) for before, after in pairwise(until)],
        "stall_ms": [1000 * (after[1] - before[1]) for before, after in pairwise(until)],
    }


def _carried(data: RunData, origin: float, count: int) -> dict[str, Sequence[float | None]]:
    """Columns on the link, from its packet log, if any. A dropped packet counts as lost when it entered the link."""
    found: dict[str, Sequence[float | None]] = {}
    if data.linked.packets is not None:
        packets = data.linked.packets.filter(polars.col("direction") == "forward")
        bits = 8 * (packets["bytes"] - HEADERS)
        ones = polars.Series([1.0] * len(packets), dtype=polars.Float64)
        lost = packets["out_at"].is_null()
        found = {
            "sent_bps": _binned(packets["in_at"], bits, origin, count),
            "packets_sent": _binned(packets["in_at"], ones, origin, count),
            "received_bps": _binned(packets["out_at"], bits, origin, count),
            "packets_received": _binned(packets["out_at"], ones, origin, count),
            "packets_lost": _binned(packets["in_at"].filter(lost), ones.filter(lost), origin, count),
        }
    began = data.linked.details.get("started_at")
    if data.specification is not None and began is not None:
        found["capacity_bps"] = capacity(data.specification.trace, origin + unix_offset() - float(began), count)
    return found


def capacity(trace: str, after: float, count: int) -> list[float | None]:
    """Capacity of a trace in each second, bit/s, starting ``after`` seconds after its beginning."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "capacity.csv"
        command = [lockstep_command(), "trace", trace, "--output", str(path), "--interval-ms", "200"]
        if subprocess.run(command, check=False, capture_output=True).returncode != 0:  # noqa: S603
            return [None] * count
        table = polars.read_csv(path)
    ends = np.concatenate(([0.0], (table["time_s"] + table["duration_s"]).to_numpy()))
    carried = np.concatenate(([0.0], np.cumsum((table["rate_bps"] * table["duration_s"]).to_numpy())))
    edges = after + np.arange(count + 1)
    # Traces repeat at their end.
    rounds, inside = np.divmod(edges, ends[-1])
    totals = np.diff(rounds * carried[-1] + np.interp(inside, ends, carried))
    # Before the trace begins the link has no capacity limit.
    return [float(total) if edge >= 0.0 else None for edge, total in zip(edges, totals, strict=False)]


def sampled(
    samples: Sequence[Mapping[str, Any]], counters: Mapping[str, str], gauges: Mapping[str, str]
) -> OwnSession | None:
    """Rows of seconds from a program's statistics, sampled about once a second, with the times `at`.

    ``counters`` increase and are interpolated linearly. ``gauges`` have their last value in each second. Both map
    columns to keys of the samples. Returns None with fewer than two samples.
    """
    if len(samples) < 2:
        return None
    at = np.array([sample["at"] for sample in samples])
    count = math.floor(at[-1] - at[0])
    edges = at[0] + np.arange(count + 1)
    columns: dict[str, list[float | None]] = {}
    for column, name in counters.items():
        # A counter that is missing still has the value zero.
        values = np.array([float(sample.get(name) or 0.0) for sample in samples])
        columns[column] = [float(value) for value in np.diff(np.interp(edges, at, values))]
    for column, name in gauges.items():
        last: list[float | None] = [None] * count
        for sample in samples:
            second = math.floor(sample["at"] - at[0])
            if second < count and (value := sample.get(name)) is not None:
                last[second] = float(value)
        columns[column] = last
    return OwnSession(float(at[0]), polars.DataFrame(columns, schema=dict.fromkeys(columns, polars.Float64)))
