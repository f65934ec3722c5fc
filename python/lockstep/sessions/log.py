"""Writes session logs from Python: of ``lockstep.simulate``, and of other programs under test."""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars

from lockstep.sessions.schema import SCHEMA, Column, SessionError, polars_schema

ACCESS = ("wired", "wifi", "2g", "3g", "4g", "lte", "5g", "satellite", "other")
"""The kinds of access networks."""
_TIME = re.compile(r"(\d\d?)(?::(\d\d?)(?::(\d\d?))?)?", re.ASCII)


def session_number(*words: str) -> int:
    """A 63-bit number for the session whose call these words identify."""
    digest = hashlib.sha256("\0".join(words).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def labelled(labels: Mapping[str, str]) -> dict[str, Any]:
    """Columns from labels as in ``--session-label``: place, access network and local time have their own columns.

    Raises:
        SessionError: If the access network is unknown, or the hour is not a time of day.

    """
    known: dict[str, Any] = {"place": labels.get("place", ""), "access": labels.get("access", "")}
    if known["access"] not in ("", *ACCESS):
        raise SessionError(f"access: {known['access']!r} is not one of {', '.join(ACCESS)}")
    if (hour := labels.get("hour")) is not None:
        known["local_start_s"] = _local_time(hour)
    others = {name: value for name, value in labels.items() if name not in ("place", "access", "hour")}
    return known | {"labels": json.dumps(others, sort_keys=True)}


def _local_time(text: str) -> int:
    match = _TIME.fullmatch(text)
    hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (24, 0, 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise SessionError(f"hour: {text!r} is not a time of day such as 21 or 21:30")
    return 3600 * hours + 60 * minutes + seconds


def write_session(folder: str | os.PathLike[str], session: Mapping[str, Any], seconds: polars.DataFrame) -> None:
    """Writes the log of a session; each of its two files is written completely or not at all.

    Args:
        folder: Folder of the logs; it is created if missing.
        session: Columns of the session's row; ``session``, ``kind``, ``seen_from`` and ``program`` are required.
            This function computes the columns that summarise its seconds.
        seconds: Rows of the seconds, one for each whole second, in order. Missing columns are unknown.

    Raises:
        SessionError: If a column is unknown, has another type, or is required and missing.
        OSError: If a file cannot be written.

    """
    number = session.get("session")
    if not isinstance(number, int) or not 0 <= number < 1 << 63:
        raise SessionError(f"session: {number!r} is not a number of at most 63 bits")
    rows = seconds.drop("session", "second", strict=False).with_columns(
        polars.lit(number).alias("session"), polars.int_range(polars.len()).alias("second")
    )
    rows = _as_schema(rows, SCHEMA.seconds)
    totals = {
        column.name: (rows[column.name].mean() if column.of_seconds == "mean" else _sum(rows[column.name]))
        for column in SCHEMA.sessions
        if column.of_seconds is not None
    }
    totals = {name: None if value is None else int(float(str(value))) for name, value in totals.items()}
    words = {column.name: "" for column in SCHEMA.sessions if column.required and column.type == "text"}
    needed = {"labels": "{}", "seconds": len(rows), "complete": True}
    whole = words | needed | dict(session) | totals
    for name in ("kind", "seen_from", "program"):
        if not whole[name]:
            raise SessionError(f"session {number}: {name} is missing")
    one = _as_schema(polars.DataFrame([whole], infer_schema_length=None), SCHEMA.sessions)
    name = f"{whole['kind']}-{number:016x}-{whole['seen_from']}"
    if not re.fullmatch(r"[\w.+-]+", name):
        raise SessionError(f"kind or seen_from: {name!r} is not a valid file name")
    # The row of the session promises its seconds, so they are written first.
    _write(rows, Path(folder) / "seconds" / f"{name}-0000.parquet")
    _write(one, Path(folder) / "sessions" / f"{name}.parquet")


def _sum(values: polars.Series) -> int | None:
    return int(values.cast(polars.Int64).sum()) if values.count() > 0 else None


def _as_schema(table: polars.DataFrame, columns: list[Column]) -> polars.DataFrame:
    types = polars_schema(columns)
    if unknown := [name for name in table.columns if name not in types]:
        raise SessionError(f"unknown column {unknown[0]!r} in session logs of version {SCHEMA.version}")
    missing = [polars.lit(None).alias(name) for name in types if name not in table.columns]
    try:
        whole = table.with_columns(missing).select(polars.col(name).cast(kind) for name, kind in types.items())
    except polars.exceptions.PolarsError as error:
        raise SessionError(str(error).partition("\n")[0]) from error
    for column in columns:
        if column.required and whole[column.name].null_count() > 0:
            raise SessionError(f"column {column.name!r} has rows without a value")
    return whole


def _write(table: polars.DataFrame, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    os.close(handle)
    try:
        version = {SCHEMA.metadata_key: str(SCHEMA.version)}
        table.write_parquet(temporary, compression="uncompressed", metadata=version)
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
