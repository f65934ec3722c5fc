"""Hashes of file contents: logs and results identify models, traces and programs by them."""

import hashlib
from functools import cache
from pathlib import Path

from lockstep import _lockstep


def content_hash(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal digits.

    Raises:
        ValueError: If the file does not exist.

    """
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_hash(path: Path) -> str:
    """The SHA-256 of a file's bytes, or of the names and bytes of all files in a folder and below.

    Raises:
        ValueError: If neither a file nor a folder has this path.

    """
    if not path.is_dir():
        return content_hash(path)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    lines = [f"{file.relative_to(path).as_posix()} {content_hash(file)}\n" for file in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


@cache
def program_hash() -> str:
    """The hash of the extension that runs calls: it contains codecs, controllers and the shipped models."""
    return content_hash(Path(_lockstep.__file__))
