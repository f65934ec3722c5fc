"""Files that reports read: they are bounded, because a file may be endless and its contents must fit into memory."""

import errno
import stat
from pathlib import Path

MAX_BYTES = 512 << 20
"""Longest file that is read, several times the log of a call of a whole day."""


def read_bounded(path: Path) -> bytes:
    """The bytes of the file.

    Raises:
        OSError: If it cannot be read or is longer than `MAX_BYTES`.

    """
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise _too_long(path)
    return content


def bounded(path: Path) -> Path:
    """The path, for a library that reads the whole file itself.

    Raises:
        OSError: If it is not a regular file or is longer than `MAX_BYTES`.

    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    if status.st_size > MAX_BYTES:
        raise _too_long(path)
    return path


def _too_long(path: Path) -> OSError:
    return OSError(errno.EFBIG, f"it has more than {MAX_BYTES} bytes", str(path))
