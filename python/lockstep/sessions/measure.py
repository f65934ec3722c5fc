"""Concerto's measurements (MobiCom 2019, section 2), computed from session logs.

A session is poor by its means over the whole session (equation 1). Only the hours split sessions into windows (figure
4).
"""

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import msgspec
import numpy

from lockstep.sessions import reaction
from lockstep.sessions.database import Logs, reading
from lockstep.sessions.reaction import Integers, Reaction, quantile
from lockstep.sessions.schema import SessionError

if TYPE_CHECKING:
    import duckdb

POOR_RTT_MS = 300.0
"""Threshold of the mean round-trip time above which a session is poor, milliseconds."""
POOR_LOSS = 0.01
"""Share of lost packets above which a session is poor."""

ENOUGH = 100
"""Minimum number of windows in an hour to draw it in full colour, and in a range of hours to print its ratio."""

NOT_GIVEN = "not given"
"""Text for a missing label."""

SPLITS = ("place", "access", "hour", "controller", "codec")
"""Columns that divide sessions into groups, and for hours their windows."""
QUANTILES = [index / 100 for index in range(101)]
"""Points of the distributions."""

NIGHT = range(1, 8)
"""Hours of the paper's night, from 1 to 8 am."""

_PERIODS = {"whole": "0", "windows": "(coalesce(local_start_s % 3600, 0) + second) // 3600"}
"""Tables of measured periods: whole sessions, and hours of local time in them. Each with the number of a second's
period."""
_MEASURED = """
CREATE OR REPLACE TABLE {table} AS
WITH known AS (
    SELECT session, max(local_start_s) AS local_start_s,
        {labels}
    FROM sessions GROUP BY session
), counted AS (
    SELECT session, {number} AS number,
        avg(rtt_us) AS rtt_us, sum(packets_sent) AS sent, sum(packets_received) AS received,
        sum(packets_lost) FILTER (packets_sent IS NOT NULL) AS lost,
        sum(packets_lost) FILTER (packets_sent IS NULL) AS missing
    FROM seconds JOIN known USING (session) GROUP BY ALL
), measured AS (
    SELECT session, number, rtt_us / 1000 AS rtt_ms,
        CASE WHEN sent > 0 THEN lost / sent WHEN sent IS NULL AND received + missing > 0
            THEN missing / (received + missing) END AS loss
    FROM counted
)
SELECT measured.* EXCLUDE (number), (local_start_s // 3600 + number) % 24 AS hour, place, access, controller, codec,
    coalesce(rtt_ms > {rtt}, false) AS slow, coalesce(loss > {loss}, false) AS lossy
FROM measured JOIN known USING (session) WHERE rtt_ms IS NOT NULL OR loss IS NOT NULL
"""


class Group(msgspec.Struct):
    """Sessions, or windows of an hour, with a common property."""

    name: str
    count: int
    """Number of sessions, or of windows."""
    poor: float
    """Poor session ratio: share of them that is poor."""
    slow: float
    """Share whose mean round-trip time is above the threshold."""
    lossy: float
    """Share whose loss is above the threshold."""


class Times(msgspec.Struct):
    """Times from a drop to an event, seconds; only of drops with the event."""

    share: float | None
    """Share of drops with the event in their session and within ten minutes."""
    mean: float | None
    p50: float | None
    p95: float | None
    cdf: list[list[float]]
    """Points of seconds, and the share of all drops with the event until then."""


class Codec(msgspec.Struct):
    """Behaviour of one kind of codec."""

    name: str
    seconds: int
    codec_bps: list[float]
    """Distribution of the codec's rate over seconds, at the percentages 0 to 100."""
    transport_bps: list[float]
    apart_percent: list[float]
    """Distribution of the codec's rate minus the transport's, in percent of the transport's."""
    drops: int
    drops_per_minute: float | None
    reduction: Times
    recovery: Times
    transport_recovery: Times
    codec_updates_per_minute: float | None
    transport_updates_per_minute: float | None


class Figures(msgspec.Struct):
    """All measurements."""

    folder: str
    sessions: int
    seconds: int
    all: Group
    by: dict[str, list[Group]]
    rtt_ms: dict[str, list[float]]
    """Distribution of the sessions' mean round-trip times by access network, at the percentages 0 to 100."""
    loss: dict[str, list[float]]
    codecs: list[Codec]


def measure(database: "duckdb.DuckDBPyConnection", logs: Logs) -> Figures:
    """Measures `logs`, the session logs in `database`.

    Raises:
        SessionError: If no second has values to measure, or a file cannot be read.

    """
    with reading(logs):
        return _measure(database, logs)


def _measure(database: "duckdb.DuckDBPyConnection", logs: Logs) -> Figures:
    codecs, sessions, kinds = _codecs(database)
    counts = _counts(database, logs)
    # The database runs in parallel with the code that follows the rates, because they read different columns.
    with ThreadPoolExecutor(1) as pool:
        periods = pool.submit(_measure_periods, database.cursor())
        reactions = reaction.measure(logs.seconds, counts, sessions, kinds, len(codecs))
        periods.result()
    every = _groups(database, "whole", "'all'")
    if not every:
        raise SessionError(f"{logs.folder}: no second of any session has a round-trip time or counts of packets")
    by = {split: _groups(database, "whole", split) for split in SPLITS if split != "hour"}
    by["hour"] = _groups(database, "windows", "CAST(hour AS VARCHAR)", order="CAST(name AS INT)")
    return Figures(
        folder=str(logs.folder),
        sessions=len(sessions),
        seconds=sum(counts),
        all=every[0],
        by=by,
        rtt_ms=_distributions(database, "rtt_ms"),
        loss=_distributions(database, "loss"),
        codecs=_followed(database, codecs, reactions),
    )


def _counts(database: "duckdb.DuckDBPyConnection", logs: Logs) -> list[int]:
    """Number of rows in each file of seconds."""
    files = [str(file) for file in logs.seconds]
    rows = database.execute("SELECT file_name, num_rows FROM parquet_file_metadata(?)", [files]).fetchall()
    of = {name: int(count) for name, count in rows}
    return [of[file] for file in files]


def _codecs(database: "duckdb.DuckDBPyConnection") -> tuple[list[str], Integers, Integers]:
    """Kinds of codecs, all sessions in ascending order, and the index of each session's codec."""
    query = (
        f"SELECT session, coalesce(nullif(max(codec), ''), '{NOT_GIVEN}') AS codec FROM sessions GROUP BY 1 ORDER BY 1"  # noqa: S608
    )
    columns: dict[str, Any] = database.execute(query).fetchnumpy()
    codecs, kinds = numpy.unique(numpy.asarray(columns["codec"], dtype=str), return_inverse=True)
    return [str(name) for name in codecs], columns["session"].astype(numpy.int64), kinds.astype(numpy.int64)


def _measure_periods(database: "duckdb.DuckDBPyConnection") -> None:
    labels = ", ".join(
        f"coalesce(nullif(max({name}), ''), '{NOT_GIVEN}') AS {name}" for name in SPLITS if name != "hour"
    )
    for table, number in _PERIODS.items():
        query = _MEASURED.format(table=table, number=number, labels=labels, rtt=POOR_RTT_MS, loss=POOR_LOSS)
        database.execute(query)


def _groups(database: "duckdb.DuckDBPyConnection", table: str, name: str, order: str = "name") -> list[Group]:
    query = (
        f"SELECT {name} AS name, count(*), avg(CAST(slow OR lossy AS INT)), avg(CAST(slow AS INT)), "  # noqa: S608
        f"avg(CAST(lossy AS INT)) FROM {table} WHERE {name} IS NOT NULL GROUP BY 1 ORDER BY {order}"
    )
    return [Group(*row) for row in database.execute(query).fetchall()]


def _distributions(database: "duckdb.DuckDBPyConnection", column: str) -> dict[str, list[float]]:
    query = (
        f"SELECT access, quantile_cont({column}, {QUANTILES}) FROM whole WHERE {column} IS NOT NULL "  # noqa: S608
        "GROUP BY 1 ORDER BY 1"
    )
    return {name: [float(value) for value in values] for name, values in database.execute(query).fetchall()}


def _followed(database: "duckdb.DuckDBPyConnection", names: list[str], reactions: list[Reaction]) -> list[Codec]:
    query = f"""
        SELECT coalesce(nullif(codec, ''), '{NOT_GIVEN}'), sum(codec_updates), sum(transport_updates),
            sum(seconds) FILTER (codec_updates IS NOT NULL)
        FROM sessions GROUP BY 1
    """  # noqa: S608
    updates = {name: numbers for name, *numbers in database.execute(query).fetchall()}
    codecs = []
    for name, of in zip(names, reactions, strict=True):
        known = int(of.codec.sum())
        if known == 0:
            continue
        of_codec, of_transport, seconds = (float(value or 0) for value in updates[name])
        codecs.append(
            Codec(
                name=name,
                seconds=known,
                codec_bps=[_rate(of.codec, share) for share in QUANTILES],
                transport_bps=[_rate(of.transport, share) for share in QUANTILES],
                apart_percent=[float((quantile(of.apart, share) or 0) - 100) for share in QUANTILES],
                drops=of.drops,
                drops_per_minute=60 * of.drops / known,
                reduction=_times(of.reductions),
                recovery=_times(of.recoveries),
                transport_recovery=_times(of.transport_recoveries),
                codec_updates_per_minute=60 * of_codec / seconds if seconds else None,
                transport_updates_per_minute=60 * of_transport / seconds if seconds else None,
            )
        )
    return codecs


def _rate(counts: Integers, share: float) -> float:
    place = quantile(counts, share) or 0
    return float(place * reaction.BIN_BPS + reaction.BIN_BPS // 2)


def _times(counts: Integers) -> Times:
    came, total = counts[:-1], int(counts.sum())
    count = int(came.sum())
    if count == 0:
        return Times(0.0 if total else None, None, None, None, [])
    seconds = numpy.arange(len(came))
    until = numpy.cumsum(came) / total
    last = int(numpy.flatnonzero(came)[-1])
    return Times(
        share=count / total,
        mean=float((came * seconds).sum() / count),
        p50=float(quantile(came, 0.5) or 0),
        p95=float(quantile(came, 0.95) or 0),
        cdf=[
            [float(second), float(until[second])] for second in range(last + 1) if came[second] or second in (0, last)
        ],
    )
