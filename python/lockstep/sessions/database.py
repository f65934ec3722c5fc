"""Session logs as two tables of DuckDB: ``sessions`` and ``seconds``."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars

from lockstep.sessions.schema import SCHEMA, SessionError

if TYPE_CHECKING:
    import duckdb

MEMORY = "1GB"
"""Memory limit of a query; larger ones use a temporary file."""

_SESSIONS = """
SELECT *, rtt_us / 1000.0 AS rtt_ms, jitter_us / 1000.0 AS jitter_ms, delay_us / 1000.0 AS delay_ms,
    CASE WHEN packets_sent > 0 THEN packets_lost / packets_sent
         WHEN packets_sent IS NULL AND packets_received + packets_lost > 0
             THEN packets_lost / (packets_received + packets_lost) END AS loss
FROM read_parquet({files})
"""
_SECONDS = """
SELECT *, rtt_us / 1000.0 AS rtt_ms, jitter_us / 1000.0 AS jitter_ms, delay_us / 1000.0 AS delay_ms
FROM read_parquet({files})
"""


@dataclass(frozen=True)
class Logs:
    """The session logs in a folder."""

    folder: Path
    sessions: list[Path]
    """Files with rows of sessions."""
    seconds: list[Path]
    """Files with rows of seconds; the parts of a long session are in order."""


def find(folder: str | os.PathLike[str]) -> Logs:
    """The session logs in `folder`.

    Raises:
        SessionError: If it is not a folder or has no session logs.

    """
    root = Path(folder)
    if not root.is_dir():
        raise SessionError(f"{root}: no such folder")
    sessions, seconds = (sorted((root / kind).glob("[!.]*.parquet")) for kind in ("sessions", "seconds"))
    if not sessions or not seconds:
        kind = "seconds" if sessions else "sessions"
        raise SessionError(
            f"{root}: no session logs in it (no {kind}/*.parquet); record calls with --session-log {root}, or "
            f"run `lockstep sessions generate --output {root}`"
        )
    return Logs(root, sessions, seconds)


def connect(logs: Logs, *, memory: str = MEMORY, threads: int | None = None) -> "duckdb.DuckDBPyConnection":
    """An in-memory database with the views ``sessions`` and ``seconds`` of `logs`; it can read only these files.

    Raises:
        SessionError: If a file is not a session log of this version, or `memory` is not a size.

    """
    import duckdb  # noqa: PLC0415

    try:
        database = duckdb.connect(":memory:")
        database.execute("SET memory_limit = ?", [memory])
    except duckdb.Error as error:
        raise SessionError(f"memory: {memory!r} is not a size such as 2GB") from error
    database.execute("SET preserve_insertion_order = false")
    # Data that does not fit into memory goes to the folder of temporary files.
    database.execute("SET temp_directory = ?", [os.environ.get("TMPDIR", "/tmp") + "/lockstep-sessions.duckdb"])  # noqa: S108
    if threads is not None:
        database.execute("SET threads = ?", [threads])
    try:
        with reading(logs):
            _check(database, logs)
            for name, view, files in (("sessions", _SESSIONS, logs.sessions), ("seconds", _SECONDS, logs.seconds)):
                database.execute(f"CREATE VIEW {name} AS {view.format(files=_list(files))}")
    except SessionError:
        database.close()
        raise
    database.execute("SET allowed_directories = ?", [[str(logs.folder / kind) for kind in ("sessions", "seconds")]])
    database.execute("SET enable_external_access = false")
    database.execute("SET lock_configuration = true")
    return database


def _list(files: list[Path]) -> str:
    quoted = ("'" + str(file).replace("'", "''") + "'" for file in files)
    return "[" + ", ".join(quoted) + "]"


def _check(database: "duckdb.DuckDBPyConnection", logs: Logs) -> None:
    """Checks that all files are session logs of this version with its columns."""
    for files, columns in ((logs.sessions, SCHEMA.sessions), (logs.seconds, SCHEMA.seconds)):
        query = (
            f"SELECT file_name, value FROM parquet_kv_metadata({_list(files)}) "  # noqa: S608
            f"WHERE decode(key) = '{SCHEMA.metadata_key}'"
        )
        versions = {
            str(file): bytes(value).decode(errors="replace") for file, value in database.execute(query).fetchall()
        }
        for file in map(str, files):
            if file not in versions:
                raise SessionError(f"{file}: not a session log; its metadata has no {SCHEMA.metadata_key}")
            if versions[file] != str(SCHEMA.version):
                reads = f"expected version {SCHEMA.version}"
                raise SessionError(f"{file}: session log of version {versions[file]}, {reads}")
        # Files of one version have the same columns.
        described = database.execute(f"DESCRIBE SELECT * FROM read_parquet({_list(files[:1])})").fetchall()  # noqa: S608
        found = {name for name, *_ in described}
        if missing := [column.name for column in columns if column.name not in found]:
            raise SessionError(f"{files[0]}: not a session log; column {missing[0]!r} is missing")


@contextmanager
def reading(logs: Logs) -> Iterator[None]:
    """Reports each error of DuckDB and Polars as a `SessionError`, which names the file if one is damaged.

    Raises:
        SessionError: If the files cannot be read, or a query fails.

    """
    import duckdb  # noqa: PLC0415

    try:
        yield
    except (duckdb.Error, polars.exceptions.PolarsError, polars.exceptions.PanicException) as error:
        file = _damaged(logs)
        if file is not None:
            raise SessionError(f"{file}: truncated or invalid Parquet file") from error
        raise SessionError(" ".join(str(error).split()).partition(" LINE 1:")[0]) from error


def _damaged(logs: Logs) -> Path | None:
    """The first file that DuckDB or Polars cannot read completely."""
    import duckdb  # noqa: PLC0415

    for file in [*logs.sessions, *logs.seconds]:
        try:
            with duckdb.connect(":memory:") as database:
                rows = database.execute("SELECT * FROM read_parquet(?)", [str(file)])
                while rows.fetchmany(10_000):
                    pass
            polars.scan_parquet(file).collect()
        except (duckdb.Error, polars.exceptions.PolarsError, polars.exceptions.PanicException):
            return file
    return None
