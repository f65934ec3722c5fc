"""The columns of session logs: ``schema.json``, by which the Rust command writes them, too."""

from importlib import resources
from typing import Literal

import msgspec
import polars


class SessionError(ValueError):
    """What is wrong with session logs or with what was asked of them, in one line."""


class Column(msgspec.Struct, forbid_unknown_fields=True):
    """A column of one of the two kinds of files."""

    name: str
    type: Literal["int64", "int32", "text", "flag"]
    required: bool
    """Whether every row has a value; where a row has none the end that logs does not know it."""
    meaning: str
    unit: str | None = None
    of_seconds: Literal["sum", "mean"] | None = None
    """How it is made of the column of that name of the session's seconds, where it is."""


class Schema(msgspec.Struct, forbid_unknown_fields=True):
    """The columns of both kinds of files."""

    version: int
    metadata_key: str
    """The key of a file's metadata whose value is the version."""
    sessions: list[Column]
    seconds: list[Column]


SCHEMA = msgspec.json.decode(resources.files("lockstep.sessions").joinpath("schema.json").read_bytes(), type=Schema)
"""The schema that this version of Lockstep reads and writes."""

_TYPES = {"int64": polars.Int64, "int32": polars.Int32, "text": polars.String, "flag": polars.Boolean}


def polars_schema(columns: list[Column]) -> dict[str, type[polars.DataType]]:
    """The columns as Polars has them."""
    return {column.name: _TYPES[column.type] for column in columns}
