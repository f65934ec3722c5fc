"""Files that reports read: they are bounded, because a file may be endless and its contents must fit into memory."""

import errno
import select
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from lockstep.module_command import print_text

MAX_BYTES = 512 << 20
"""Longest file that is read, several times the log of a call of a whole day."""
PATIENCE_SECONDS = 1.0
"""Time after which the user learns of the wait for a FIFO's writer, as in the crate `units`."""


def read_bounded(path: Path) -> bytes:
    """The bytes of the file.

    If it is a FIFO, waits for a writer and its data. A line on standard error reports each wait of a second.

    Raises:
        OSError: If it cannot be read or is longer than `MAX_BYTES`.

    """
    with _opened(path) as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise _too_long(path)
    return content


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The open file. Opening a FIFO waits for a writer, which is reported."""
    if not path.is_fifo():
        with path.open("rb") as file:
            yield file
        return
    announcement = threading.Timer(PATIENCE_SECONDS, print_text, [f"waiting for a writer of {path}: it is a FIFO"])
    announcement.daemon = True
    announcement.start()
    try:
        file = path.open("rb")
    finally:
        announcement.cancel()
    with file:
        if not select.select([file], [], [], PATIENCE_SECONDS)[0]:
            print_text(f"waiting for data from {path}: its writer has sent nothing")
        yield file


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
