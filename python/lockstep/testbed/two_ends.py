"""Programs with two processes that exchange session descriptions, one line of JSON in each direction.

The arguments of an end are its role, a folder, and others. The sender prints its offer and reads the answer; the
receiver reads the offer and prints its answer. The call lasts until standard input ends. The files of an end are:

- `sender.times`: a line for each picture of the sender's camera, with number and time (CLOCK_MONOTONIC, s);
- `receiver.times`: a line for each displayed picture, with width, height and time;
- `shown.i420`: the displayed pictures;
- `sender.series`, `receiver.series` (optional): statistics once or twice a second, lines of JSON with the time `at`.
"""

import contextlib
import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lockstep.testbed import barcodes
from lockstep.testbed.chromium import with_candidate
from lockstep.testbed.machine import now
from lockstep.testbed.processes import apart, end, pause
from lockstep.testbed.programs import Outcome, OwnSession, Samples, Setting, Shown, Side, TestbedError
from lockstep.testbed.ruler import Sight

START_SECONDS = 20.0
ROLES = ("sender", "receiver")


class TwoEnds:
    """A call between two such processes."""

    def __init__(
        self,
        name: str,
        command: Callable[[str, Setting], Sequence[str]],
        version: Callable[[], str],
        session: Callable[[Sequence[Mapping[str, Any]]], OwnSession | None] = lambda _: None,
    ) -> None:
        """Stores the program's name, the command of each role, and the function that makes session rows."""
        self._name = name
        self._command = command
        self._version = version
        self._session = session
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._setting: Setting | None = None

    def start(self, setting: Setting) -> Mapping[str, int]:
        """Starts both ends, carries their session descriptions, and waits for the first picture."""
        self._setting = setting
        sender = self._run("sender", setting.sender)
        receiver = self._run("receiver", setting.receiver)
        offered = self._receive(sender, "sender")
        if setting.relayed:
            offered["sdp"] = with_unreachable_candidates(offered["sdp"])
        self._send(receiver, offered)
        answered = self._receive(receiver, "receiver")
        if setting.relayed:
            answered["sdp"] = with_candidate(answered["sdp"], setting.through)
        setting.begin()
        self._send(sender, answered)
        deadline = now() + START_SECONDS
        times = setting.work / "receiver.times"
        while not (times.exists() and times.stat().st_size):
            self.poll()
            if now() > deadline:
                raise TestbedError(f"{self._name} showed no picture within {START_SECONDS:.0f} s of joining")
            pause(0.05)
        return {"sender": sender.pid, "receiver": receiver.pid}

    def _run(self, role: str, side: Side) -> "subprocess.Popen[str]":
        assert self._setting is not None  # noqa: S101
        with (self._setting.work / f"{role}.stderr").open("w") as errors:
            process = subprocess.Popen(  # noqa: S603
                [*side.enter, *self._command(role, self._setting)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                **apart(),
            )
        self._processes[role] = process
        return process

    def _receive(self, process: "subprocess.Popen[str]", role: str) -> dict[str, Any]:
        assert process.stdout is not None  # noqa: S101
        line = process.stdout.readline()
        if not line:
            raise TestbedError(f"the {role} of {self._name} ended: {self._last_error(role)}")
        description: dict[str, Any] = json.loads(line)
        return description

    def _send(self, process: "subprocess.Popen[str]", description: Mapping[str, Any]) -> None:
        assert process.stdin is not None  # noqa: S101
        # An end that has ended is detected when its answer is read.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(dict(description)) + "\n")
            process.stdin.flush()

    def _last_error(self, role: str) -> str:
        assert self._setting is not None  # noqa: S101
        lines = (self._setting.work / f"{role}.stderr").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no message"

    def poll(self) -> None:
        """Detects an end that has ended early."""
        for role, process in self._processes.items():
            if process.poll() is not None:
                raise TestbedError(
                    f"the {role} of {self._name} ended with status {process.returncode}: {self._last_error(role)}"
                )

    def stop(self) -> Outcome:
        """Ends both ends, and reads the barcodes of the displayed pictures."""
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
        series = {role: lines_of(work / f"{role}.series") for role in ROLES}
        return Outcome(
            previews=previews,
            shown=shown,
            unread=unread,
            details={"version": self._version(), "series": series["sender"], "received": series["receiver"]},
            session=self._session(series["sender"]) if self._setting.session_log else None,
        )

    def pictures(self) -> Iterator[tuple[int, Samples]]:
        """The displayed pictures as they were saved; those of another size than the clip's are skipped."""
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


def with_unreachable_candidates(sdp: str) -> str:
    """A session description with unusable addresses (port 9, discard): without any, aiortc gathers no candidates."""
    return re.sub(r"(a=candidate:\S+ \d+ udp \d+ \S+) \d+", r"\1 9", sdp, flags=re.IGNORECASE)


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The JSON lines in a file of an end; empty without a file, and without a truncated last line."""
    found = []
    with contextlib.suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            found.append(json.loads(line))
    return found
