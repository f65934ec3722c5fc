"""Columns of session logs, from ``schema.json``, which the Rust command uses, too."""

from importlib import resources
from typing import Literal

import msgspec
import polars


class SessionError(ValueError):
    """Session logs or a request about them are invalid; the message gives the reason in one line."""


class Column(msgspec.Struct, forbid_unknown_fields=True):
    """A column of one of the two kinds of files."""

    name: str
    type: Literal["int64", "int32", "text", "flag"]
    required: bool
    """Whether every row has a value; a missing value is unknown to the logging end."""
    meaning: str
    unit: str | None = None
    of_seconds: Literal["sum", "mean"] | None = None
    """Aggregation of the session's seconds that gives this column, if any."""


class Schema(msgspec.Struct, forbid_unknown_fields=True):
    """The columns of both kinds of files."""

    version: int
    metadata_key: str
    """Key of a file's metadata whose value is the version."""
    sessions: list[Column]
    seconds: list[Column]


SCHEMA = msgspec.json.decode(resources.files("lockstep.sessions").joinpath("schema.json").read_bytes(), type=Schema)
"""The schema that this version of Lockstep reads and writes."""

_TYPES = {"int64": polars.Int64, "int32": polars.Int32, "text": polars.String, "flag": polars.Boolean}


def polars_schema(columns: list[Column]) -> dict[str, type[polars.DataType]]:
    """The columns as a Polars schema."""
    return {column.name: _TYPES[column.type] for column in columns}
