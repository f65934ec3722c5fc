"""The window of a call and screen sharing, on a virtual X11 display."""

import contextlib
import os
import re
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lockstep.command import lockstep_command

SCREEN = (800, 600)
TICKET = re.compile(r"LOCKSTEP-[A-Z2-7]{80,}")
SECONDS = 60.0
"""Time limit for what takes a few seconds on an idle machine."""
SILENT = ("--audio", "none", "--audio-output", "none")


@pytest.fixture
def display() -> Iterator[str]:
    """A virtual display with OpenGL in software."""
    if shutil.which("Xvfb") is None or shutil.which("ffmpeg") is None:
        pytest.skip("Xvfb or ffmpeg is missing (Debian: apt install xvfb libgl1-mesa-dri ffmpeg)")
    size = f"{SCREEN[0]}x{SCREEN[1]}x24"
    reading, writing = os.pipe()
    command = ["Xvfb", "-displayfd", str(writing), "-screen", "0", size, "-nolisten", "tcp"]
    with subprocess.Popen(command, pass_fds=[writing], stderr=subprocess.DEVNULL) as server:  # noqa: S603
        os.close(writing)
        with os.fdopen(reading) as numbers:
            number = numbers.readline().strip()
        if not number:
            pytest.skip("Xvfb does not start here")
        yield f":{number}"
        server.terminate()


def screenshot(display: str) -> np.ndarray:
    """Luma of the display, rows by columns."""
    size = f"{SCREEN[0]}x{SCREEN[1]}"
    grab = ["ffmpeg", "-v", "error", "-f", "x11grab", "-draw_mouse", "0", "-video_size", size, "-i", display]
    grab += ["-frames:v", "1", "-pix_fmt", "gray", "-f", "rawvideo", "-"]
    made = subprocess.run(grab, check=True, capture_output=True)  # noqa: S603
    return np.frombuffer(made.stdout, np.uint8).reshape(SCREEN[1], SCREEN[0])


@contextlib.contextmanager
def talk(arguments: list[str], log: Path, display: str | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """One end of a call, whose output goes to ``log``."""
    unset = {name: value for name, value in os.environ.items() if name not in {"DISPLAY", "WAYLAND_DISPLAY"}}
    environment = unset | ({"DISPLAY": display} if display else {})
    with log.open("wb") as output:
        command = [lockstep_command(), "talk", *arguments]
        with subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
        ) as process:
            try:
                yield process
            finally:
                process.terminate()


def until(condition: str, log: Path, found: re.Pattern[str]) -> str:
    """Waits until ``found`` is in the log, and returns its match."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        text = log.read_text(errors="replace")
        if matched := found.search(text):
            return matched[0]
        if "no display" in text:
            pytest.skip(f"no window here: {text[-300:]}")
        time.sleep(0.1)
    raise AssertionError(f"{condition}: {log.read_text(errors='replace')[-500:]}")


def test_window_shows_the_other_end_and_shares_the_screen(display: str, tmp_path: Path) -> None:
    here, there, shown = tmp_path / "here.log", tmp_path / "there.log", tmp_path / "shown.ivf"
    listening = [*SILENT, "--listen", "127.0.0.1:0", "--source", "generated:320x180@15", "--screen", "--name", "anna"]
    joining = [
        *SILENT,
        "--no-window",
        "--source",
        "generated:page:640x360@15",
        "--sink",
        str(shown),
        "--status",
        "none",
    ]
    with talk(listening, here, display):
        ticket = until("no ticket", here, TICKET)
        with talk([ticket, *joining], there):
            until("no call", here, re.compile("the other end is there"))
            deadline = time.monotonic() + SECONDS
            while time.monotonic() < deadline:
                picture = screenshot(display)
                # The page of the other end is light; the ground of a window without pictures is dark.
                if np.mean(picture > 200) > 0.1:
                    break
                time.sleep(0.2)
            assert np.mean(picture > 200) > 0.1, here.read_text(errors="replace")[-500:]
            deadline = time.monotonic() + SECONDS
            while time.monotonic() < deadline and (not shown.exists() or shown.stat().st_size < 10_000):
                time.sleep(0.1)
    header = shown.read_bytes()[:32]
    assert struct.unpack_from("<HH", header, 12) == SCREEN, "the other end saw the whole screen"


def test_window_of_a_room_shows_the_person_who_speaks_large(display: str, tmp_path: Path) -> None:
    here = tmp_path / "here.log"
    opening = [
        "--audio",
        "none",
        "--audio-output",
        "nowhere",
        "--room",
        "--listen",
        "127.0.0.1:0",
        "--source",
        "generated:320x180@15",
        "--name",
        "anna",
    ]
    with contextlib.ExitStack() as people:
        people.enter_context(talk(opening, here, display))
        ticket = until("no ticket", here, TICKET)
        others = {
            "bruno": "generated:terminal:320x180@5",
            "clara": "generated:page:320x180@5",
            "dora": "generated:160x90@5",
        }
        for name, source in others.items():
            sound = ["--audio", "tone" if name == "clara" else "none", "--audio-output", "none"]
            there = tmp_path / f"{name}.log"
            joining = [ticket, "--no-window", "--source", source, "--status", "none", "--name", name]
            people.enter_context(talk([*joining, *sound], there))
            until(f"{name} is missing", here, re.compile(f"{name} is there"))
        # The light page fills four fifths of the window's height, in place of a quarter of a grid.
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline and np.mean(screenshot(display) > 200) < 0.2:
            time.sleep(0.2)
        assert np.mean(screenshot(display) > 200) > 0.2, here.read_text(errors="replace")[-500:]
