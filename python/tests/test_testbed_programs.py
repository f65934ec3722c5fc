"""Programs under test: their options, their missing requirements, and the pictures that they display."""

import base64
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import altair
import numpy as np
import polars
import pytest

from lockstep.command import lockstep_command
from lockstep.figure import specification
from lockstep.testbed import (
    barcodes,
    chromium,
    decoding,
    experiments,
    firefox,
    gstreamer_call,
    gstreamer_end,
    own,
    peers,
    pion_call,
    programs,
    str0m_call,
    two_ends,
    web,
    y4m,
)
from lockstep.testbed.__main__ import _lacking
from lockstep.testbed.decoding import EncodedFrame
from lockstep.testbed.ruler import Sight

RATE = 30.0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("codec=vp10", "vp8, vp9, av1, h264"),
        ("cap=fast", "not a bit rate"),
        ("layers=L9T9", "not a scalability mode"),
        ("degradation=none", "balanced"),
        ("hint=film", "detail, text"),
    ],
)
def test_wrong_options_of_chromium_are_refused_before_start(words: str, message: str) -> None:
    with pytest.raises(programs.TestbedError, match=message):
        chromium.check(programs.parse(f"chromium:{words}").options)
    for program in experiments.ALL:
        if program.startswith("chromium"):
            chromium.check(programs.parse(program).options)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("firefox:codec=vp10", "vp8, vp9, av1, h264"),
        ("firefox:cap=fast", "not a bit rate"),
        ("lockstep-web:page=both", "receiver, sender"),
        ("lockstep-web:codec=vp9", "functional or av1"),
        ("lockstep-web:page=sender,codec=av1", "expected functional"),
        ("gstreamer:bitrate=fast", "not a bit rate"),
        ("gstreamer:latency=soon", "not a time from 0"),
        ("gstreamer:latency=99999", "not a time from 0"),
        ("gstreamer:control=bbr", "fixed, gcc"),
        ("gstreamer:cap=fast", "not a bit rate"),
        ("str0m:cap=fast", "not a bit rate"),
        ("gstreamer:start=4mbps", "start=4mbps is above cap=3500kbps"),
        ("pion:cap=fast", "not a bit rate"),
        ("pion:start=5mbps", "above cap"),
    ],
)
def test_wrong_options_of_other_programs_are_refused(name: str, message: str) -> None:
    modules = {
        "firefox": firefox,
        "gstreamer": gstreamer_call,
        "lockstep-web": web,
        "pion": pion_call,
        "str0m": str0m_call,
    }
    named = programs.parse(name)
    with pytest.raises(programs.TestbedError, match=message):
        modules[named.kind].check(named.options)
    for kind, module in modules.items():
        module.check(programs.KINDS[kind].options)


def test_missing_requirement_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(str0m_call, "PEER", replace(str0m_call.PEER, built=tmp_path / "nothing"))
    monkeypatch.setattr(peers, "GO", str(tmp_path))
    monkeypatch.setattr(gstreamer_call, "PYTHONS", (str(tmp_path / "python"),))
    gstreamer_call._found.cache_clear()
    try:
        assert "apt install firefox-esr" in (firefox.missing() or "")
        assert "cargo" in (str0m_call.missing() or "")
        monkeypatch.setattr(str0m_call, "PEER", replace(str0m_call.PEER, folder=tmp_path / "no-checkout"))
        assert "LOCKSTEP_STR0M_PEER" in (str0m_call.missing() or "")
        monkeypatch.setenv("LOCKSTEP_STR0M_PEER", str(tmp_path / "gone"))
        assert "gone" in (str0m_call.missing() or "")
        monkeypatch.setattr(pion_call, "PEER", replace(pion_call.PEER, built=tmp_path / "nothing"))
        assert "go, which builds the pion peer" in (pion_call.missing() or "")
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


@pytest.fixture
def peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> peers.Peer:
    """A peer that a stand-in of Go builds from a folder with one file of the time 1000."""
    folder = tmp_path / "peers" / "thing"
    folder.mkdir(parents=True)
    (folder / "main.go").write_text("sources")
    os.utime(folder / "main.go", (1000, 1000))
    tool = tmp_path / "go"
    tool.write_text('#!/bin/sh\ncp main.go "$2" && echo built >>../builds\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    built = tmp_path / "target" / "thing"
    return peers.Peer("the thing", "LOCKSTEP_THING", folder, built, ("go", "build", str(built)), ("go",))


def test_peer_is_built_again_only_after_a_change(peer: peers.Peer) -> None:
    assert peer.found() is None
    assert peer.missing() is None
    assert peer.build() == peer.build() == peer.built
    later = peer.built.stat().st_mtime + 10
    os.utime(peer.folder / "main.go", (later, later))
    assert peer.found() is None
    assert peer.build().read_text() == "sources"
    assert (peer.folder.parent / "builds").read_text().split() == ["built", "built"]


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ("warning: unused\nerror[E0425]: no such name\nerror: aborting", "error\\[E0425\\]: no such name"),
        ("# thing\n./main.go:3: undefined: x", "./main.go:3: undefined: x"),
        ("", "no message"),
    ],
)
def test_failed_build_of_a_peer_names_the_reason(peer: peers.Peer, messages: str, reason: str) -> None:
    (peer.folder.parent.parent / "go").write_text(f"#!/bin/sh\nprintf '{messages}' >&2; exit 1\n")
    with pytest.raises(programs.TestbedError, match=f"cannot build the thing: {reason}$"):
        peer.build()


def test_missing_library_of_a_peer_is_named(peer: peers.Peer, tmp_path: Path) -> None:
    (tmp_path / "pkg-config").write_text("#!/bin/sh\ntest $2 = here\n")
    (tmp_path / "pkg-config").chmod(0o755)
    assert replace(peer, libraries={"here": "here-dev"}).missing() is None
    lacking = replace(peer, libraries={"here": "here-dev", "vpx": "libvpx-dev"})
    assert "apt install libvpx-dev" in (lacking.missing() or "")
    with pytest.raises(programs.TestbedError, match="libvpx-dev"):
        lacking.build()


def test_peer_built_elsewhere_needs_no_sources(
    peer: peers.Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").write_text("")
    monkeypatch.setenv(peer.variable, str(tmp_path / "elsewhere"))
    assert replace(peer, folder=tmp_path / "no-checkout").build() == tmp_path / "elsewhere"


@pytest.mark.parametrize("installed", [True, False])
def test_estimator_of_gstreamer_is_built_if_not_installed(
    installed: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = tmp_path / "python"
    fake.write_text(f"#!/bin/sh\nprintf '\\nGStreamer 1.22\\n{'rtpgccbwe' if installed else ''}\\n'\n")
    fake.chmod(0o755)
    monkeypatch.setattr(gstreamer_call, "PYTHONS", (str(fake),))
    monkeypatch.delenv(gstreamer_call.PLUGIN.variable, raising=False)
    monkeypatch.setattr(
        gstreamer_call, "PLUGIN", replace(gstreamer_call.PLUGIN, folder=tmp_path / "no", built=fake / "x")
    )
    gstreamer_call._found.cache_clear()
    options = programs.parse("gstreamer:control=gcc").options
    try:
        assert gstreamer_call.missing() is None
        if installed:
            gstreamer_call.check(options)
            assert list(_lacking("gstreamer")) == []
            return
        with pytest.raises(programs.TestbedError, match="LOCKSTEP_GSTREAMER_GCC"):
            gstreamer_call.check(options)
        # The program itself is available.
        assert [line.split(" ")[0] for line in _lacking("gstreamer")] == [
            name for name in experiments.ALL if name.startswith("gstreamer:control=gcc")
        ]
    finally:
        gstreamer_call._found.cache_clear()


def test_versions_of_peers_are_those_of_their_lock_files(tmp_path: Path) -> None:
    assert str0m_call._version().startswith("str0m 0.")
    assert pion_call._version().startswith("pion 4.")
    assert peers.locked_version("str0m", tmp_path / "none") == ""


def test_pictures_skipped_by_the_encoder_count_as_captured() -> None:
    clip = programs.Clip(Path("x"), 640, 360, RATE, 100)
    encoded = [Sight(number, number / RATE) for number in (96, 97, 99)]
    # The clip repeats; then the camera pauses.
    encoded += [Sight(1, 101 / RATE), Sight(5, 105 / RATE + 0.2)]
    captured = firefox.all_captured(encoded, clip)
    assert [sight.number for sight in captured] == [96, 97, 98, 99, 0, 1, 5]
    assert captured[2].at == pytest.approx(98 / RATE)
    assert captured[4].at == pytest.approx(100 / RATE)
    assert firefox.all_captured([], clip) == []


def test_only_pictures_confirmed_by_a_later_check_count() -> None:
    frames = [EncodedFrame(rtp, rtp in (0, 6), b"") for rtp in range(9)]
    looks = {2: True, 4: False, 7: True}
    pictures = ((frame, bytes([frame.rtp])) for frame in frames)
    wanted = {rtp: 10 + rtp for rtp in range(9) if rtp != 1}
    found = decoding.confirmed(pictures, wanted, lambda frame, _: looks.get(frame.rtp))
    # 3 and 4 are refuted. 5 belongs to the same stretch, whose end has no check. A key frame starts a new one.
    assert [(key, samples.tolist()) for key, samples in found] == [(10 + rtp, [rtp]) for rtp in (0, 2, 6, 7, 8)]


def test_barcodes_are_read_from_colour_pictures(tmp_path: Path) -> None:
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


def test_charts_of_many_programs_are_made() -> None:
    rows = polars.DataFrame({"at": list(range(6000))})
    drawn = specification(altair.Chart(rows).mark_line().encode(x="at:Q"))
    assert sum(len(values) for values in drawn["datasets"].values()) == 6000


def test_truncated_last_line_of_an_end_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text('{"at": 1}\n{"at": 2}\n{"at"')
    assert [line["at"] for line in two_ends.lines_of(tmp_path / "lines")] == [1, 2]
    assert two_ends.lines_of(tmp_path / "nothing") == []


@pytest.mark.parametrize(("width", "height"), [(640, 360), (322, 181), (6, 3)])
def test_row_padding_of_gstreamer_is_removed(width: int, height: int) -> None:
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
