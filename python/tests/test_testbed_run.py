"""A short run of the testbed, if Chromium and the right to make namespaces are available."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import polars
import pytest

from lockstep.testbed import (
    aiortc_call,
    chromium,
    firefox,
    gstreamer_call,
    link,
    measuring,
    own,
    pion_call,
    programs,
    str0m_call,
    web,
)
from lockstep.testbed.clips import barcoded
from lockstep.testbed.peers import Peer
from lockstep.testbed.processes import group_members
from lockstep.testbed.programs import Clip

SECONDS = 8.0
DELAY_MS = 20.0
LINK = link.LinkSpecification("cellular:mean=2mbps,seed=1", delay_ms=DELAY_MS)
# Ignore warnings of modules that are imported late.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Clip:
    if lacking := own.missing():
        pytest.skip(lacking)
    return barcoded("generated", (640, 360), 30.0, SECONDS, tmp_path_factory.mktemp("clips"))


def namespaces() -> str:
    listed = subprocess.run(["ip", "netns", "list"], check=False, capture_output=True, text=True)  # noqa: S607
    return listed.stdout


def missing_or_not_built(peer: Peer) -> Callable[[], str | None]:
    # A test should not build for minutes.
    return lambda: peer.missing() or (None if peer.found() else "it is not built: run make test-testbed")


def missing_estimator() -> str | None:
    return gstreamer_call.missing() or missing_or_not_built(gstreamer_call.PLUGIN)()


@pytest.mark.parametrize(
    ("program", "missing"),
    [
        ("lockstep", own.missing),
        ("lockstep-web", web.missing),
        ("lockstep-web:page=sender", web.missing),
        ("chromium", chromium.missing),
        ("aiortc", aiortc_call.missing),
        ("firefox", firefox.missing),
        ("gstreamer", gstreamer_call.missing),
        ("gstreamer:control=gcc", missing_estimator),
        ("str0m", missing_or_not_built(str0m_call.PEER)),
        ("pion", missing_or_not_built(pion_call.PEER)),
    ],
)
@pytest.mark.parametrize("kind", ["tun", "relay"])
def test_frames_of_a_call_over_a_link_are_measured(
    program: str, missing: object, kind: str, clip: Clip, tmp_path: Path
) -> None:
    assert callable(missing)
    if lacking := missing() or link.missing(kind):
        pytest.skip(f"{program} over {kind}: {lacking}")
    if kind == "relay" and program not in ("lockstep", "lockstep-web:page=sender", "chromium", "str0m", "pion"):
        pytest.skip("relays are tested with a few programs")
    found = measuring.run(measuring.Run(program, LINK, kind, clip, SECONDS), tmp_path)
    frames = polars.read_parquet(tmp_path / "frames.parquet")
    assert found["captured"] == len(frames) == SECONDS * clip.rate
    # The number of displayed pictures depends on the machine. That they are read, and not too early, does not.
    assert found["shown"] > 0
    # Firefox starts with small pictures, whose barcodes may be unreadable.
    assert found["unread"] == 0 or program == "firefox"
    assert frames["waited"].min() > DELAY_MS / 1000 - found["clock_error_ms"] / 1000 - 0.002
    assert found["ssim_frames"] > 0
    assert frames.select((polars.col("ssim") > 0.5).all()).item()
    if program in ("chromium", "firefox"):
        assert found["identical"] > 0
        assert found["different"] == 0
    if kind == "tun":
        packets = polars.read_parquet(tmp_path / "packets.parquet")
        assert set(packets["direction"].unique()) == {"forward", "reverse"}
        assert found["forward_kbps"] > 0
        assert f"lockstep-testbed-{os.getpid()}-" not in namespaces()


def test_page_that_joins_a_sender_refuses_a_relay(clip: Clip, tmp_path: Path) -> None:
    if lacking := web.missing():
        pytest.skip(lacking)
    # The relay's capacity and loss would lead from the page to the sender.
    with pytest.raises(programs.TestbedError, match="--link tun"):
        measuring.run(measuring.Run("lockstep-web", LINK, "relay", clip, SECONDS), tmp_path)


@pytest.mark.parametrize("page", ["receiver", "sender"])
def test_crash_of_the_page_is_reported_and_lockstep_ended(
    page: str, clip: Clip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lacking := web.missing():
        pytest.skip(lacking)
    program = web.make(programs.parse(f"lockstep-web:page={page}").options)
    started = program.start
    leaders: list[int] = []

    def start(setting: programs.Setting) -> Mapping[str, int]:
        processes = started(setting)
        leaders.extend(processes.values())
        os.killpg(processes[page], signal.SIGKILL)
        return processes

    monkeypatch.setattr(program, "start", start)
    monkeypatch.setattr(measuring, "make", lambda _: program)
    with pytest.raises(programs.TestbedError, match="chromium: "):
        measuring.run(measuring.Run("lockstep-web", None, "direct", clip, SECONDS), tmp_path / "run")
    assert [group_members(leader) for leader in leaders] == [[], []]


@pytest.mark.parametrize("ends", ["link", "sender", "receiver"])
def test_process_that_ends_during_a_run_is_reported(
    ends: str, clip: Clip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lacking := link.missing("tun"):
        pytest.skip(lacking)
    opened = link.TunLink(LINK, tmp_path)
    program = own.Lockstep(programs.KINDS["lockstep"].options)
    started = program.start

    def start(setting: programs.Setting) -> Mapping[str, int]:
        processes = started(setting)
        os.kill({**processes, "link": opened._process.pid}[ends], signal.SIGKILL)
        return processes

    monkeypatch.setattr(program, "start", start)
    monkeypatch.setattr(measuring, "make", lambda _: program)
    monkeypatch.setattr(link, "open_link", lambda *_: opened)
    with pytest.raises(programs.TestbedError, match=r"status -9"):
        measuring.run(measuring.Run("lockstep", LINK, "tun", clip, SECONDS), tmp_path / "run")
    assert f"lockstep-testbed-{os.getpid()}-" not in namespaces()
    assert not program._processes


def test_crashed_browser_is_reported_and_the_other_closed(
    clip: Clip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lacking := chromium.missing():
        pytest.skip(lacking)
    program = chromium.Chromium(programs.KINDS["chromium"].options)
    started = program.start
    leaders: list[int] = []

    def start(setting: programs.Setting) -> Mapping[str, int]:
        processes = started(setting)
        leaders.extend(processes.values())
        os.killpg(processes["receiver"], signal.SIGKILL)
        return processes

    monkeypatch.setattr(program, "start", start)
    monkeypatch.setattr(measuring, "make", lambda _: program)
    with pytest.raises(programs.TestbedError, match="chromium: "):
        measuring.run(measuring.Run("chromium", None, "direct", clip, SECONDS), tmp_path / "run")
    assert len(leaders) == 2
    assert [group_members(leader) for leader in leaders] == [[], []]
