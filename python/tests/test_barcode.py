"""Frame numbers in pictures, as the testbed reads them."""

import pytest

from lockstep import barcode_regions, read_barcode, read_barcode_regions

WIDTH, HEIGHT = 1280, 720
CELL = 16
NUMBER = 0x123456


def word(number: int) -> list[bool]:
    """The cells of a number, from the description of the format: three bytes, then their CRC-16/EN-13757."""
    remainder = 0
    for bit in range(23, -1, -1):
        carried = (remainder >> 15) ^ (number >> bit & 1)
        remainder = (remainder << 1 & 0xFFFF) ^ (0x3D65 if carried else 0)
    bits = number << 16 | (~remainder & 0xFFFF)
    return [bool(bits >> bit & 1) for bit in range(39, -1, -1)]


def picture() -> bytes:
    luma = bytearray([90]) * (WIDTH * HEIGHT)
    for (left, top, _, _), light in zip(barcode_regions(WIDTH, HEIGHT), (224, 32), strict=True):
        for cell, one in enumerate(word(NUMBER)):
            level = light if one else 256 - light
            for y in range(CELL):
                start = (top + cell // 10 * CELL + y) * WIDTH + left + cell % 10 * CELL
                luma[start : start + CELL] = bytes([level]) * CELL
    return bytes(luma)


def region(luma: bytes, index: int) -> bytes:
    left, top, width, height = barcode_regions(WIDTH, HEIGHT)[index]
    return b"".join(luma[y * WIDTH + left : y * WIDTH + left + width] for y in range(top, top + height))


def test_a_number_is_read_from_a_picture_and_from_its_two_regions() -> None:
    luma = picture()
    assert read_barcode(luma, WIDTH, HEIGHT) == (NUMBER, None)
    regions = region(luma, 0), region(luma, 1)
    assert read_barcode_regions(*regions, WIDTH, HEIGHT) == (NUMBER, None)
    number, problem = read_barcode_regions(regions[1], regions[0], WIDTH, HEIGHT)
    assert number is None
    assert problem is not None
    assert "checksum" in problem


def test_unreadable_barcode_has_a_reason() -> None:
    number, problem = read_barcode(bytes(WIDTH * HEIGHT), WIDTH, HEIGHT)
    assert number is None
    assert problem is not None
    assert "expected" in str(read_barcode(b"", WIDTH, HEIGHT)[1])
    assert "carries no barcodes" in str(read_barcode_regions(b"", b"", 100, 100)[1])
    with pytest.raises(ValueError, match="carries no barcodes"):
        barcode_regions(100, 100)
