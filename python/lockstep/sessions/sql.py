"""``lockstep sessions sql DIR "SELECT ..."``: read-only SQL over session logs."""

import csv
import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

from lockstep.module_command import ArgumentParser, print_text
from lockstep.sessions.database import MEMORY, connect, find, reading
from lockstep.sessions.schema import SessionError

if TYPE_CHECKING:
    import duckdb

ROWS = 1_000
"""Default limit of printed rows."""

_EXAMPLE = "SELECT access, count(*), avg(rtt_ms) FROM sessions GROUP BY access"


def select(database: "duckdb.DuckDBPyConnection", query: str) -> "duckdb.DuckDBPyConnection":
    """Runs `query`, a single SELECT.

    Raises:
        SessionError: If it is not a single SELECT.
        duckdb.Error: If it fails.

    """
    import duckdb  # noqa: PLC0415

    try:
        statements = database.extract_statements(query)
    except duckdb.Error as error:
        raise SessionError(str(error)) from error
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise SessionError(f"the logs are read-only: expected one SELECT statement, such as {_EXAMPLE}")
    return database.execute(statements[0])


def _write(rows: Iterable[tuple[Any, ...]], names: list[str], form: str, out: TextIO) -> None:
    if form == "csv":
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows)
    elif form == "json":
        for row in rows:
            print(json.dumps(dict(zip(names, row, strict=True)), default=str), file=out)
    else:
        shown = [[_text(value) for value in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(names, *shown, strict=True)]
        for line in [names, ["-" * width for width in widths], *shown]:
            padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
            print_text("  ".join(padded).rstrip(), out)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = ArgumentParser(
        prog="lockstep sessions sql",
        description="SQL over the session logs in a folder: the read-only tables sessions and seconds.",
        epilog=f'for example: lockstep sessions sql DIR "{_EXAMPLE}"',
    )
    parser.add_argument("folder", metavar="DIR", help="folder of the logs")
    parser.add_argument(
        "query", metavar="SELECT", help="a SELECT statement of DuckDB's SQL; `-` reads it from standard input"
    )
    parser.add_argument("--format", choices=["table", "csv", "json"], default="table", help="output format (table)")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"largest number of printed rows ({ROWS}); 0 for all")
    parser.add_argument("--memory", default=MEMORY, help=f"memory limit of the query ({MEMORY})")
    parser.add_argument("--threads", type=int, default=None, help="threads (default: one per core)")
    options = parser.parse_args(arguments)
    logs = find(options.folder)
    with connect(logs, memory=options.memory, threads=options.threads) as database, reading(logs):
        result = select(database, sys.stdin.read() if options.query == "-" else options.query)
        names = [name for name, *_ in result.description or []]
        if options.rows == 0 and options.format != "table":
            _write(iter(result.fetchone, None), names, options.format, sys.stdout)
            return 0
        rows = result.fetchmany(options.rows + 1) if options.rows > 0 else result.fetchall()
        more = 0 < options.rows < len(rows)
        _write(rows[: options.rows] if more else rows, names, options.format, sys.stdout)
        if more:
            print(f"printed the first {options.rows} rows; --rows 0 prints all", file=sys.stderr)
    return 0
