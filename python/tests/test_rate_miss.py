"""Statistics of deviations from a target."""

import pytest

from lockstep.rate_miss import Miss, RateMissError, chart, ivf_frames, miss


def test_twice_and_half_the_target_deviate_by_75_percent() -> None:
    frames = [(0.1, 20_000.0), (0.9, 5_000.0), (1.0, 6_250.0), (2.2, 99_999.0)]
    of = miss("a clip", "an encoder", 100, frames, 2.5)
    assert of.seconds == 2
    assert (of.mean, of.most, of.p95) == pytest.approx((0.75, 1.0, 1.0))
    assert of.rate_kbps == pytest.approx(125.0)
    assert (of.deviation, of.peak) == pytest.approx((0.75, 2.0))
    with pytest.raises(RateMissError, match="shorter than a second"):
        miss("a clip", "an encoder", 100, frames, 0.5)


def test_ivf_frames_are_read_and_a_damaged_file_is_refused() -> None:
    header = b"DKIF" + bytes([0, 0, 32, 0]) + b"VP80" + bytes([16, 0, 16, 0])
    header += (30).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes(8)
    frames = b"".join(
        len(b).to_bytes(4, "little") + at.to_bytes(8, "little") + b for at, b in ((0, b"ab"), (3, b"abc"))
    )
    assert ivf_frames(header + frames) == [(0.0, 2.0), (0.1, 3.0)]
    assert ivf_frames(header + frames[:-2]) == [(0.0, 2.0)]
    for damaged in (b"", b"DKIF", b"RIFF" + bytes(40), header[:16] + bytes(16)):
        with pytest.raises(RateMissError):
            ivf_frames(damaged)


def test_the_chart_has_a_line_for_each_encoder() -> None:
    misses = [
        Miss("c", encoder, kbps, 9, 0.1, 0.2, 0.3, 90.0, 0.2, 1.5)
        for encoder in ("libvpx", "lockstep")
        for kbps in (100, 200)
    ]
    specification = chart(misses).to_dict()
    domain = specification["layer"][0]["encoding"]["color"]["scale"]["domain"]
    assert domain == ["libvpx", "lockstep"]
