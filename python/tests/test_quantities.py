import math

import pytest

from lockstep import quantities


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (quantities.bit_rate(4_213_000), "4.21 Mb/s"),
        (quantities.bit_rate(320_400), "320 kb/s"),
        (quantities.milliseconds(83.4), "83 ms"),
        (quantities.milliseconds(4.26), "4.3 ms"),
        (quantities.milliseconds(12_300), "12.3 s"),
        (quantities.percent(0.004), "0.4 %"),
        (quantities.percent(0.914), "91 %"),
        (quantities.percent(0.0), "0 %"),
        (quantities.decibels(14.23), "14.2 dB"),
        (quantities.count(12_345), "12 345"),
        (quantities.minutes_per_hour(0.84), "0.84 min/h"),
    ],
)
def test_numbers_have_units(text: str, expected: str) -> None:
    assert text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{NARROW NO-BREAK SPACE}", " ") == expected


def test_missing_value_is_a_dash() -> None:
    forms = (quantities.bit_rate, quantities.milliseconds, quantities.percent, quantities.decibels, quantities.number)
    for form in forms:
        assert form(None) == quantities.MISSING
        assert form(math.nan) == quantities.MISSING
