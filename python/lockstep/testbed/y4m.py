"""Reads pictures of y4m files and streams: 4:2:0 with eight bits."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from lockstep.testbed.programs import Clip, Luma, Samples, TestbedError

MAX_HEADER_BYTES = 1024
MAX_SIDE = 16_383


@dataclass(frozen=True, slots=True)
class Format:
    """Contents of a y4m header."""

    width: int
    height: int
    rate: float
    length: int
    """Length of the header in bytes, with its end of line."""

    @property
    def picture_bytes(self) -> int:
        """Bytes of a picture without its FRAME line."""
        return self.width * self.height + 2 * (-(-self.width // 2) * -(-self.height // 2))


def read_header(stream: IO[bytes], name: str) -> Format:
    """Reads the header.

    Raises:
        TestbedError: If it is not a header of 4:2:0 with eight bits.

    """
    line = stream.readline(MAX_HEADER_BYTES)
    fields = line.split()
    found = {field[:1]: field[1:] for field in fields[1:]}
    try:
        width, height = int(found[b"W"]), int(found[b"H"])
        numerator, denominator = map(int, found.get(b"F", b"25:1").split(b":"))
        rate = numerator / denominator
    except (KeyError, ValueError, ZeroDivisionError) as error:
        raise TestbedError(f"{name}: damaged or not a y4m file") from error
    sides_fit = 0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE
    if fields[0] != b"YUV4MPEG2" or not line.endswith(b"\n") or not sides_fit or rate <= 0:
        raise TestbedError(f"{name}: damaged or not a y4m file")
    if not found.get(b"C", b"420").startswith(b"420") or b"p1" in found.get(b"C", b""):
        raise TestbedError(f"{name}: {found[b'C'].decode()} is not 4:2:0 with eight bits")
    return Format(width, height, rate, len(line))


def read_picture(stream: IO[bytes], form: Format) -> bytes | None:
    """The next picture; None at the end of the stream, also within a picture."""
    if not stream.readline(MAX_HEADER_BYTES).startswith(b"FRAME"):
        return None
    data = stream.read(form.picture_bytes)
    return data if len(data) == form.picture_bytes else None


def open_clip(path: Path) -> Clip:
    """A y4m file as a clip; its size gives the number of frames.

    Raises:
        TestbedError: If it is not a y4m file of 4:2:0 with eight bits.
        OSError: If it cannot be read.

    """
    with path.open("rb") as stream:
        form = read_header(stream, str(path))
    frames = (path.stat().st_size - form.length) // (form.picture_bytes + len(b"FRAME\n"))
    return Clip(path.resolve(), form.width, form.height, form.rate, frames)


class ClipReader:
    """The pictures of a clip, by number."""

    def __init__(self, clip: Clip) -> None:
        """Maps the file into memory."""
        self._clip = clip
        with clip.path.open("rb") as stream:
            form = read_header(stream, str(clip.path))
        self._form = form
        self._bytes = np.memmap(clip.path, np.uint8, "r")

    def luma(self, number: int) -> Luma:
        """The luma of the frame with this number; the clip repeats after its last frame."""
        return self._clip.luma(self.samples(number))

    def samples(self, number: int) -> Samples:
        """All samples of that frame, planes in order."""
        each = self._form.picture_bytes + len(b"FRAME\n")
        start = self._form.length + (number % self._clip.frames) * each + len(b"FRAME\n")
        return np.asarray(self._bytes[start : start + self._form.picture_bytes])


def pictures(stream: IO[bytes], form: Format) -> Iterator[bytes]:
    """Yields all remaining pictures."""
    while (picture := read_picture(stream, form)) is not None:
        yield picture
