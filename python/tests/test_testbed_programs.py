"""The programs under test: their options, what is missing of them, and what is kept of what they show."""

import base64
import subprocess
from pathlib import Path

import altair
import numpy as np
import polars
import pytest

from lockstep.command import lockstep_command
from lockstep.testbed import (
    barcodes,
    charts,
    chromium,
    decoding,
    experiments,
    firefox,
    gstreamer_call,
    gstreamer_end,
    own,
    programs,
    str0m_call,
    two_ends,
    y4m,
)
from lockstep.testbed.decoding import EncodedFrame
from lockstep.testbed.ruler import Sight

RATE = 30.0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("codec=vp10", "vp8, vp9, av1, h264"),
        ("cap=fast", "no bit rate"),
        ("layers=L9T9", "no scalability mode"),
        ("degradation=none", "balanced"),
    ],
)
def test_options_of_chromium_are_told_apart_before_it_starts(words: str, said: str) -> None:
    with pytest.raises(programs.TestbedError, match=said):
        chromium.check(programs.parse(f"chromium:{words}").options)
    for program in experiments.ALL:
        if program.startswith("chromium"):
            chromium.check(programs.parse(program).options)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("firefox:codec=vp10", "vp8, vp9, av1, h264"),
        ("firefox:cap=fast", "no bit rate"),
        ("gstreamer:bitrate=fast", "no bit rate"),
        ("gstreamer:latency=soon", "no time in ms"),
        ("gstreamer:latency=99999", "no time in ms"),
        ("str0m:cap=fast", "no bit rate"),
    ],
)
def test_options_of_other_programs_are_told_apart_before_they_start(name: str, said: str) -> None:
    modules = {"firefox": firefox, "gstreamer": gstreamer_call, "str0m": str0m_call}
    named = programs.parse(name)
    with pytest.raises(programs.TestbedError, match=said):
        modules[named.kind].check(named.options)
    for kind, module in modules.items():
        module.check(programs.KINDS[kind].options)


def test_what_is_missing_is_said_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(str0m_call, "BUILT", tmp_path / "nothing")
    monkeypatch.setattr(gstreamer_call, "PYTHONS", (str(tmp_path / "python"),))
    gstreamer_call._found.cache_clear()
    try:
        assert "apt install firefox-esr" in (firefox.missing() or "")
        assert "cargo" in (str0m_call.missing() or "")
        monkeypatch.setattr(str0m_call, "PACKAGE", tmp_path / "no-checkout")
        assert "LOCKSTEP_STR0M_PEER" in (str0m_call.missing() or "")
        monkeypatch.setenv("LOCKSTEP_STR0M_PEER", str(tmp_path / "gone"))
        assert "gone" in (str0m_call.missing() or "")
        assert "bindings" in (gstreamer_call.missing() or "")
        with pytest.raises(programs.TestbedError, match="bindings"):
            gstreamer_call.make(programs.KINDS["gstreamer"].options)
        fake = tmp_path / "python"
        fake.write_text("#!/bin/sh\necho 'GStreamer has no webrtcbin (apt install it)'\n")
        fake.chmod(0o755)
        gstreamer_call._found.cache_clear()
        assert gstreamer_call.missing() == "GStreamer has no webrtcbin (apt install it)"
    finally:
        gstreamer_call._found.cache_clear()


def test_pictures_that_an_encoder_left_out_were_captured_if_those_around_were_in_time() -> None:
    clip = programs.Clip(Path("x"), 640, 360, RATE, 100)
    encoded = [Sight(number, number / RATE) for number in (96, 97, 99)]
    # The clip begins again; then the camera stops for a while.
    encoded += [Sight(1, 101 / RATE), Sight(5, 105 / RATE + 0.2)]
    captured = firefox.all_captured(encoded, clip)
    assert [sight.number for sight in captured] == [96, 97, 98, 99, 0, 1, 5]
    assert captured[2].at == pytest.approx(98 / RATE)
    assert captured[4].at == pytest.approx(100 / RATE)
    assert firefox.all_captured([], clip) == []


def test_of_decoded_pictures_those_are_taken_that_a_later_look_does_not_belie() -> None:
    frames = [EncodedFrame(rtp, rtp in (0, 6), b"") for rtp in range(9)]
    looks = {2: True, 4: False, 7: True}
    pictures = ((frame, bytes([frame.rtp])) for frame in frames)
    wanted = {rtp: 10 + rtp for rtp in range(9) if rtp != 1}
    found = decoding.confirmed(pictures, wanted, lambda frame, _: looks.get(frame.rtp))
    # 3 and 4 are belied; 5 is of the same stretch, whose end nobody looked at; a key frame begins anew.
    assert [(key, samples.tolist()) for key, samples in found] == [(10 + rtp, [rtp]) for rtp in (0, 2, 6, 7, 8)]


def test_barcodes_are_read_from_what_a_screen_has_in_colours(tmp_path: Path) -> None:
    if lacking := own.missing():
        pytest.skip(lacking)
    made = [lockstep_command(), "barcode", "generated:640x360@10", str(tmp_path / "x.y4m")]
    subprocess.run([*made, "--seconds", "0.1", "--first", "4711"], check=True, capture_output=True)  # noqa: S603
    luma = y4m.ClipReader(y4m.open_clip(tmp_path / "x.y4m")).luma(0)
    regions = []
    for x, y, width, height in barcodes.regions(640, 360):
        pixels = np.repeat(luma[y : y + height, x : x + width, None], 4, axis=2)
        data = base64.b64encode(np.pad(pixels, ((0, 0), (0, 3), (0, 0))).tobytes()).decode()
        rect = {"x": x, "y": y, "width": width, "height": height}
        regions.append({"rect": rect, "stride": 4 * (width + 3), "bytes": data})
    row = {"width": 640, "height": 360, "format": "BGRA", "regions": regions}
    assert firefox._number(row) == 4711
    assert firefox._number({**row, "regions": regions[:1]}) is None


def test_charts_of_many_programs_are_drawn() -> None:
    rows = polars.DataFrame({"at": list(range(6000))})
    drawn = charts._bare(altair.Chart(rows).mark_line().encode(x="at:Q"))
    assert sum(len(values) for values in drawn["datasets"].values()) == 6000


def test_what_an_end_wrote_last_may_be_cut_off(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text('{"at": 1}\n{"at": 2}\n{"at"')
    assert [line["at"] for line in two_ends.lines_of(tmp_path / "lines")] == [1, 2]
    assert two_ends.lines_of(tmp_path / "nothing") == []


@pytest.mark.parametrize(("width", "height"), [(640, 360), (322, 181), (6, 3)])
def test_pictures_of_gstreamer_are_kept_without_the_ends_of_its_rows(width: int, height: int) -> None:
    planes = [(width, height, -(-height // 2) * 2)]
    planes += [(-(-width // 2), -(-height // 2), -(-height // 2))] * 2
    padded, tight = b"", b""
    for value, (columns, rows, lines) in enumerate(planes, 1):
        stride = -(-columns // 4) * 4
        block = np.zeros((lines, stride), np.uint8)
        block[:rows, :columns] = value
        padded += block.tobytes()
        tight += bytes([value]) * (rows * columns)
    assert gstreamer_end.tight(padded, width, height) == tight
