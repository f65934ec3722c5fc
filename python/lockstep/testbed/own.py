"""Lockstep itself: `lockstep send` and `lockstep receive`, started like by any user.

The clip replaces the sender's camera. The receiver writes its pictures to a pipe, which is read like the track of a
browser: a picture counts as displayed when it is complete. The sender's log has the capture times.
"""

import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

import numpy as np
import polars

from lockstep.command import lockstep_command
from lockstep.testbed import barcodes, y4m
from lockstep.testbed.machine import now, unix_offset
from lockstep.testbed.processes import END_SECONDS, apart, end, pause
from lockstep.testbed.programs import Clip, Outcome, OwnSession, Samples, Setting, Shown, TestbedError
from lockstep.testbed.ruler import Sight

START_SECONDS = 20.0


class Lockstep:
    """A call between `lockstep send` and `lockstep receive`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Sets the options `controller`, `codec`, `grace` (or `default`) and `content`, as for `lockstep send`."""
        self._options = dict(options)
        self._command = lockstep_command()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._times: list[float] = []
        self._setting: Setting | None = None
        self._reader: threading.Thread | None = None
        self._offset = unix_offset()
        self._size = 0
        self._failure: str | None = None
        """Reason why reading the displayed pictures ended early."""

    def start(self, setting: Setting) -> Mapping[str, int]:
        """Starts the receiver, then the sender with its ticket, and waits for the first picture."""
        self._setting = setting
        receiver, ticket = self._start_receiver(setting)
        leads = setting.through(ticket)
        setting.begin()
        sender = self._start_sender(setting, leads, *sender_arguments(self._options))
        self._drain(sender)
        self._wait_for_picture()
        return {"sender": sender.pid, "receiver": receiver.pid}

    def _start_receiver(self, setting: Setting, *words: str) -> tuple["subprocess.Popen[bytes]", str]:
        """Starts `lockstep receive` with ``words``, and reads its pictures; returns it with its ticket."""
        pipe = setting.work / "shown.y4m"
        os.mkfifo(pipe)
        self._reader = threading.Thread(target=self._read, args=(pipe,), daemon=True)
        self._reader.start()
        receiver = self._run("receiver", setting.receiver.enter, "receive", "--sink", str(pipe), *words)
        return receiver, self._ticket("receiver")

    def _start_sender(self, setting: Setting, *words: str) -> "subprocess.Popen[bytes]":
        """Starts `lockstep send` with ``words``, and the clip as its source."""
        return self._run(
            "sender", setting.sender.enter, "send", *words, "--source", self._source_argument(setting.clip)
        )

    def _source_argument(self, clip: Clip) -> str:
        """The clip as a source of `lockstep send`."""
        return f"{clip.path},content=screen" if self._options.get("content") == "screen" else str(clip.path)

    def _ticket(self, name: str) -> str:
        """The ticket that the process of this end prints."""
        printed = self._processes[name].stdout
        assert printed is not None  # noqa: S101
        line = printed.readline()
        try:
            ticket = str(json.loads(line)["ticket"])
        except (ValueError, KeyError, TypeError):
            raise TestbedError(f"cannot read the ticket of the {name} of lockstep: {self._last_error(name)}") from None
        self._drain(self._processes[name])
        return ticket

    @staticmethod
    def _drain(process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None  # noqa: S101
        threading.Thread(target=_drain, args=(process.stdout,), daemon=True).start()

    def _wait_for_picture(self) -> None:
        deadline = now() + START_SECONDS
        while not self._times:
            self.poll()
            if now() > deadline:
                raise TestbedError(f"lockstep showed no picture within {START_SECONDS:.0f} s of joining")
            pause(0.05)

    def _run(self, name: str, enter: tuple[str, ...], *words: str) -> subprocess.Popen[bytes]:
        assert self._setting is not None  # noqa: S101
        work = self._setting.work
        command = [*enter, self._command, *words, "--log", str(work / f"{name}.log"), "--status", "json", "--attached"]
        if self._setting.session_log:
            command += ["--session-log", str(work / f"{name}.session")]
        with (work / f"{name}.stderr").open("wb") as errors:
            process = subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, **apart()
            )
        self._processes[name] = process
        return process

    def _last_error(self, name: str) -> str:
        assert self._setting is not None  # noqa: S101
        lines = (self._setting.work / f"{name}.stderr").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no message"

    def _read(self, pipe: Path) -> None:
        """Saves the displayed pictures and their times."""
        assert self._setting is not None  # noqa: S101
        try:
            with pipe.open("rb") as stream, (self._setting.work / "shown.i420").open("wb") as kept:
                try:
                    form = y4m.read_header(stream, str(pipe))
                except TestbedError:
                    return
                self._size = form.picture_bytes
                for picture in y4m.pictures(stream, form):
                    at = now()
                    kept.write(picture)
                    self._times.append(at)
                kept.flush()
        except OSError as error:
            self._failure = f"cannot save displayed pictures: {error}"

    def poll(self) -> None:
        """Detects an end that has ended early, and a full disk."""
        if self._failure is not None:
            raise TestbedError(self._failure)
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise TestbedError(
                    f"the {name} of lockstep ended with status {process.returncode}: {self._last_error(name)}"
                )

    def stop(self) -> Outcome:
        """Ends the sender, then the receiver, and reads the barcodes of the displayed pictures."""
        assert self._setting is not None  # noqa: S101
        self.close()
        if self._reader is not None:
            self._reader.join(END_SECONDS)
        if self._failure is not None:
            raise TestbedError(self._failure)
        displays = [
            at - self._offset
            for _, at in logged(self._setting.work / "receiver.log", "display", "frame", "displayed_at")
        ]
        # Time between the decision to display a picture and the end of its reading from the pipe.
        gaps = [read - decided for read, decided in zip(self._times, displays, strict=False)]
        shown, unread = self._shown()
        return Outcome(
            previews=self._captured(),
            shown=shown,
            unread=unread,
            clock_error=abs(unix_offset() - self._offset),
            read_seconds=float(np.quantile(gaps, 0.99)) if gaps else 0.0,
            details={"version": self._version()},
            session=self._session() if self._setting.session_log else None,
        )

    def _captured(self) -> list[Sight]:
        """The pictures that the sender captured: the clip starts with number 0, and the n-th is its n-th."""
        assert self._setting is not None  # noqa: S101
        return [
            Sight(number, at - self._offset)
            for number, at in logged(self._setting.work / "sender.log", "frame", "capture", "captured_at")
        ]

    def _shown(self) -> tuple[list[Shown], int]:
        """The displayed pictures with readable numbers, and the number of unreadable ones."""
        assert self._setting is not None  # noqa: S101
        shown, unread = [], 0
        for key, samples in self.pictures():
            number = barcodes.read(self._setting.clip.luma(samples))
            if number is None:
                unread += 1
            else:
                shown.append(Shown(Sight(number, self._times[key]), key))
        return shown, unread

    def _session(self) -> OwnSession | None:
        """Values that only the sender's session log has, and the receiver's jitter."""
        assert self._setting is not None  # noqa: S101
        sender, receiver = (logged_session(self._setting.work / f"{name}.session") for name in ("sender", "receiver"))
        if sender is None:
            return None
        at, seconds = sender
        jitter = [None] * len(seconds)
        if receiver is not None:
            # The receiver's seconds start at another time, so the nearest ones are used.
            apart_by = round(at - receiver[0])
            known = receiver[1]["jitter_us"].to_list()
            jitter = [
                known[index] if 0 <= (index := row + apart_by) < len(known) else None for row in range(len(seconds))
            ]
        own = seconds.drop(
            "session", "second", "jitter_us", "delay_us", "capacity_bps", "received_bps", "packets_received"
        )
        return OwnSession(
            at - self._offset,
            own.with_columns(polars.Series("jitter_us", jitter, dtype=polars.Int64)),
            self._options["controller"],
            self._options["codec"],
        )

    def _version(self) -> str:
        printed = subprocess.run([self._command, "--version"], check=False, capture_output=True, text=True)  # noqa: S603
        return printed.stdout.strip()

    def pictures(self) -> Iterator[tuple[int, Samples]]:
        """The displayed pictures as they were read."""
        assert self._setting is not None  # noqa: S101
        if not self._size:
            return
        with (self._setting.work / "shown.i420").open("rb") as kept:
            for key in range(len(self._times)):
                samples = kept.read(self._size)
                if len(samples) < self._size:
                    return
                yield key, np.frombuffer(samples, np.uint8)

    def close(self) -> None:
        """Ends both processes, the sender first, like a user."""
        for process in reversed(self._processes.values()):
            end(process)
        self._processes.clear()


def make(options: Mapping[str, str]) -> Lockstep:
    """Makes the program with these options."""
    return Lockstep(options)


def check(options: Mapping[str, str]) -> None:
    """Lets `lockstep send` parse these options before any run.

    Raises:
        TestbedError: If it refuses one; the message has the reason.

    """
    controller = options["controller"]
    if controller == "hindsight":
        raise TestbedError(
            "the controller `hindsight` requires the trace of the link, which only simulated calls provide"
        )
    if options["content"] not in ("camera", "screen"):
        raise TestbedError(f"content: expected camera or screen, got {options['content']}")
    # `lockstep send` checks its options before it refuses this ticket.
    command = [lockstep_command(), "send", "no-ticket", "--source", "generated", *sender_arguments(options)]
    tried = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
    if "a ticket begins with" not in tried.stderr:
        raise TestbedError(tried.stderr.strip().splitlines()[0].removeprefix("error: ").removeprefix("lockstep: "))


def sender_arguments(options: Mapping[str, str]) -> list[str]:
    """Options of `lockstep send` for the program's options."""
    words = ["--controller", options["controller"], "--codec", options["codec"]]
    return words if options["grace"] == "default" else [*words, "--grace-period", options["grace"]]


def missing() -> str | None:
    """Missing requirements of this program; None if it can run."""
    try:
        lockstep_command()
    except ValueError as error:
        return str(error)
    return None


def logged(path: Path, entry: str, number: str, time: str) -> Iterator[tuple[int, float]]:
    """Number and time (s since the Unix epoch) of the entries in a log of `lockstep`; it may be truncated."""
    epoch = 0.0
    with path.open() as lines:
        for line in lines:
            try:
                found = json.loads(line)
            except ValueError:
                return
            if "start" in found:
                epoch = seconds(found["start"]["epoch"])
            elif entry in found:
                yield int(found[entry][number]), epoch + seconds(found[entry][time])


def logged_session(folder: Path) -> tuple[float, polars.DataFrame] | None:
    """Start (s since the Unix epoch) and seconds of the session log that `lockstep` wrote to ``folder``."""
    try:
        (described,) = (folder / "sessions").glob("*.parquet")
        parts = [polars.read_parquet(part) for part in sorted((folder / "seconds").glob("*.parquet"))]
        began = polars.read_parquet(described)["started_at_ms"].item()
    except (OSError, ValueError, polars.exceptions.PolarsError):
        return None
    return (began / 1000, polars.concat(parts)) if parts and began is not None else None


def seconds(timestamp: int) -> float:
    """A time of a log, in nanoseconds, as seconds."""
    return timestamp / 1e9


def _drain(stream: IO[bytes]) -> None:
    # Another thread may close the stream.
    with contextlib.suppress(ValueError, OSError):
        for _ in stream:
            pass
