"""What files hold, as hashes: what is kept of a call says by them of which model, trace and program it is."""

import hashlib
from functools import cache
from pathlib import Path

from lockstep import _lockstep


def content_hash(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal digits.

    Raises:
        ValueError: If there is no such file.

    """
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file")
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_hash(path: Path) -> str:
    """The SHA-256 of a file's bytes, or of the names and bytes of all files in a folder and below.

    Raises:
        ValueError: If there is neither.

    """
    if not path.is_dir():
        return content_hash(path)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    lines = [f"{file.relative_to(path).as_posix()} {content_hash(file)}\n" for file in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


@cache
def program_hash() -> str:
    """The hash of the program that runs calls: codecs, controllers, and the models that come with them."""
    return content_hash(Path(_lockstep.__file__))
