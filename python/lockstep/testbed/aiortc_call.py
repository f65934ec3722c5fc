"""aiortc: WebRTC in Python, VP8 with libvpx and a bandwidth estimate at the receiver (REMB); each end is a process."""

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import numpy as np

from lockstep.testbed import barcodes
from lockstep.testbed.chromium import with_candidate
from lockstep.testbed.machine import now
from lockstep.testbed.processes import apart, end, pause
from lockstep.testbed.programs import Outcome, Samples, Setting, Shown, Side, TestbedError
from lockstep.testbed.ruler import Sight

START_SECONDS = 20.0


def missing() -> str | None:
    """What this program takes and is not here; None if it can run."""
    return None if find_spec("aiortc") else "aiortc is missing: pip install 'lockstep-video[testbed]'"


class Aiortc:
    """A call between two ends made with aiortc."""

    def __init__(self) -> None:
        """Takes no options."""
        if lacking := missing():
            raise TestbedError(lacking)
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._setting: Setting | None = None

    def start(self, setting: Setting) -> Mapping[str, int]:
        """Starts both ends, carries what they say to each other, and waits for the first picture."""
        self._setting = setting
        sender = self._run("sender", setting.sender)
        receiver = self._run("receiver", setting.receiver)
        offered = self._hear(sender, "sender")
        if setting.relayed:
            offered["sdp"] = out_of_reach(offered["sdp"])
        self._tell(receiver, offered)
        answered = self._hear(receiver, "receiver")
        if setting.relayed:
            answered["sdp"] = with_candidate(answered["sdp"], setting.through)
        setting.begin()
        self._tell(sender, answered)
        deadline = now() + START_SECONDS
        times = setting.work / "receiver.times"
        while not (times.exists() and times.stat().st_size):
            self.poll()
            if now() > deadline:
                raise TestbedError(f"aiortc showed no picture within {START_SECONDS:.0f} s of joining")
            pause(0.05)
        return {"sender": sender.pid, "receiver": receiver.pid}

    def _run(self, role: str, side: Side) -> "subprocess.Popen[str]":
        assert self._setting is not None  # noqa: S101
        words = ["-m", "lockstep.testbed.aiortc_end", role, str(self._setting.work), str(self._setting.clip.path)]
        with (self._setting.work / f"{role}.said").open("w") as said:
            process = subprocess.Popen(  # noqa: S603
                [*side.enter, sys.executable, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                **apart(),
            )
        self._processes[role] = process
        return process

    def _hear(self, process: "subprocess.Popen[str]", role: str) -> dict[str, Any]:
        assert process.stdout is not None  # noqa: S101
        line = process.stdout.readline()
        if not line:
            raise TestbedError(f"the {role} of aiortc ended: {self._said(role)}")
        heard: dict[str, Any] = json.loads(line)
        return heard

    def _tell(self, process: "subprocess.Popen[str]", description: Mapping[str, Any]) -> None:
        assert process.stdin is not None  # noqa: S101
        # Who is gone is noticed where an answer is waited for.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(dict(description)) + "\n")
            process.stdin.flush()

    def _said(self, role: str) -> str:
        assert self._setting is not None  # noqa: S101
        lines = (self._setting.work / f"{role}.said").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def poll(self) -> None:
        """Notices an end that failed, or ended though nobody told it to."""
        for role, process in self._processes.items():
            if process.poll() is not None:
                raise TestbedError(f"the {role} of aiortc ended with status {process.returncode}: {self._said(role)}")

    def stop(self) -> Outcome:
        """Ends both, and reads the barcodes of what was shown."""
        assert self._setting is not None  # noqa: S101
        self.close()
        work, clip = self._setting.work, self._setting.clip
        previews = [
            Sight(int(number), float(at))
            for number, at in map(str.split, (work / "sender.times").read_text().splitlines())
        ]
        shown, unread = [], 0
        times = [float(line.split()[2]) for line in (work / "receiver.times").read_text().splitlines()]
        for key, samples in self.pictures():
            number = barcodes.read(clip.luma(samples))
            if number is None:
                unread += 1
            else:
                shown.append(Shown(Sight(number, times[key]), key))
        try:
            own = version("aiortc")
        except PackageNotFoundError:
            own = ""
        return Outcome(previews=previews, shown=shown, unread=unread, details={"version": f"aiortc {own}"})

    def pictures(self) -> Iterator[tuple[int, Samples]]:
        """What was shown, as it was kept; pictures of another size than the clip's are left out."""
        assert self._setting is not None  # noqa: S101
        work, clip = self._setting.work, self._setting.clip
        with (work / "shown.i420").open("rb") as kept:
            for key, line in enumerate((work / "receiver.times").read_text().splitlines()):
                width, height = map(int, line.split()[:2])
                size = width * height + 2 * (-(-width // 2) * -(-height // 2))
                samples = kept.read(size)
                if len(samples) == size and (width, height) == (clip.width, clip.height):
                    yield key, np.frombuffer(samples, np.uint8)

    def close(self) -> None:
        """Ends both processes."""
        for process in self._processes.values():
            if process.stdin is not None and not process.stdin.closed:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()
        for process in self._processes.values():
            end(process)
        self._processes.clear()


def out_of_reach(sdp: str) -> str:
    """A session description at whose addresses nobody answers (port 9, discard): without any, aiortc gathers none."""
    return re.sub(r"(a=candidate:\S+ \d+ udp \d+ \S+) \d+", r"\1 9", sdp)


def make(options: Mapping[str, str]) -> Aiortc:  # noqa: ARG001 - it has none
    """The program."""
    return Aiortc()


def check(options: Mapping[str, str]) -> None:
    """There is nothing to check: it takes no options."""
