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


@cache
def program_hash() -> str:
    """The hash of the program that runs calls: codecs, controllers, and the models that come with them."""
    return content_hash(Path(_lockstep.__file__))
