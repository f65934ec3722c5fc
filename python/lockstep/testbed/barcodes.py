"""Reads frame numbers from the barcodes of whole pictures, or of their two barcode regions only."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import lockstep
from lockstep.testbed.programs import Luma

Rectangle = tuple[int, int, int, int]
"""x, y, width and height in samples."""

SMALLEST = (320, 180)
"""Smaller pictures are enlarged before reading, because barcode cells are fractions of the picture."""


def regions(width: int, height: int) -> list[Rectangle]:
    """Rectangles of the barcodes in a picture of this size."""
    return list(lockstep.barcode_regions(width, height))


def read(luma: Luma) -> int | None:
    """The number in a picture's two barcodes; None if they are unreadable or differ."""
    height, width = luma.shape
    times = max(-(-SMALLEST[0] // width), -(-SMALLEST[1] // height))
    if times > 1:
        luma = np.kron(luma, np.ones((times, times), np.uint8))
    height, width = luma.shape
    number, _ = lockstep.read_barcode(luma.tobytes(), width, height)
    return number


def read_cut(width: int, height: int, cuts: Sequence[tuple[Rectangle, NDArray[np.uint8]]]) -> int | None:
    """The number in a picture of which only these rectangles are available."""
    luma = np.zeros((height, width), np.uint8)
    for (x, y, across, down), samples in cuts:
        luma[y : y + down, x : x + across] = samples[:down, :across]
    return read(luma)
