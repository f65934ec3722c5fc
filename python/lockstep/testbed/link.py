"""Links between the two ends of a call: emulated for all packets, emulated by UDP relays, or none.

- `tun`: two network namespaces with a TUN device each, and `lockstep emulate --tun` between them, for unmodified
  programs. It requires root or user namespaces.
- `relay`: `lockstep emulate` relays UDP, without special rights. The relay's address replaces the program's (WebRTC's
  candidates, Lockstep's ticket).
- `direct`: no link, for measuring the ruler's error and the program's own delay.
"""

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import polars

from lockstep.command import lockstep_command
from lockstep.testbed.machine import now, unix_offset
from lockstep.testbed.processes import END_SECONDS, apart, end
from lockstep.testbed.programs import Side, TestbedError

KINDS = ("tun", "relay", "direct")
READY_SECONDS = 10.0
NAMES = Path("/run/netns")
"""Folder of named network namespaces (iproute2)."""


@dataclass(frozen=True, slots=True)
class LinkSpecification:
    """A link as data: the options of `lockstep emulate`."""

    trace: str = "constant:100mbps"
    reverse: str | None = None
    delay_ms: float = 20.0
    queue_packets: int = 256
    loss: str = "0"
    seed: int = 1

    def words(self) -> list[str]:
        """The options of `lockstep emulate`."""
        words = ["--trace", self.trace, "--delay-ms", f"{self.delay_ms:g}", "--queue-packets", str(self.queue_packets)]
        words += ["--loss", self.loss, "--seed", str(self.seed)]
        return words + (["--reverse", self.reverse] if self.reverse else [])


@dataclass(slots=True)
class LinkOutcome:
    """Result of a link after a run."""

    packets: polars.DataFrame | None = None
    """One row for each packet: `direction` (`forward` or `reverse`), `in_at`, `out_at` (s, the machine's clock; null
    for a dropped packet), `bytes` of the IP packet, `fate`. None without a log."""
    lateness_p99_ms: float | None = None
    """99th percentile of the packets' lateness relative to the link model, ms; None if unknown."""
    details: dict[str, Any] = field(default_factory=dict)


class Link(Protocol):
    """A link for one run."""

    sender: Side
    receiver: Side

    def through(self, destination: str) -> str:
        """The destination for the sender instead of ``destination`` (an address and port, or a ticket of Lockstep)."""

    def begin(self) -> None:
        """Starts the capacity trace when the ends join."""

    def poll(self) -> None:
        """Is called once a second during the call; raises `TestbedError` if the link has ended."""

    def stop(self) -> LinkOutcome:
        """Ends the link; may be called repeatedly."""


class DirectLink:
    """No link: both ends on this machine."""

    def __init__(self) -> None:
        """Starts nothing."""
        self.sender = self.receiver = Side()

    def through(self, destination: str) -> str:
        """The destination itself."""
        return destination

    def begin(self) -> None:
        """Does nothing."""

    def poll(self) -> None:
        """Does nothing: there is no link that could fail."""

    def stop(self) -> LinkOutcome:
        """Returns an empty outcome."""
        return LinkOutcome()


class RelayLink:
    """`lockstep emulate` as a relay between two ends without namespaces."""

    def __init__(self, specification: LinkSpecification) -> None:
        """Stores the link; the emulator starts when the receiver's address is known."""
        self._specification = specification
        self._process: subprocess.Popen[bytes] | None = None
        self.sender = self.receiver = Side()

    def through(self, destination: str) -> str:
        """Starts the emulator towards ``destination``; returns its address, or a ticket that leads through it."""
        address = re.fullmatch(r"(\[[0-9a-f:]+\]|[0-9.]+):\d+", destination)
        # The receiver may listen on one address of this machine only, so the relay uses the same one.
        listen = ["--listen", f"{address[1]}:0"] if address else []
        command = [lockstep_command(), "emulate", *listen, *self._specification.words(), destination]
        self._process = subprocess.Popen(  # noqa: S603
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **apart()
        )
        line = _first_line(self._process, "lockstep emulate")
        if found := re.match(r"ticket: (\S+)", line):
            return found[1]
        if found := re.match(r"emulating a link from (\S+) to", line):
            return found[1].rstrip(",")
        raise TestbedError(f"cannot read the address of lockstep emulate in {line!r}")

    def begin(self) -> None:
        """Does nothing: the emulator's trace starts with the first datagram."""

    def poll(self) -> None:
        """Detects that the emulator has ended."""
        if self._process is not None:
            _check_running(self._process)

    def stop(self) -> LinkOutcome:
        """Ends the emulator."""
        end(self._process, signal.SIGINT)
        return LinkOutcome()


class TunLink:
    """`lockstep emulate --tun`: two network namespaces, connected by this link only."""

    def __init__(self, specification: LinkSpecification, work: Path) -> None:
        """Makes the namespaces.

        Raises:
            TestbedError: If that is not possible; the message has the reason.

        """
        self._log = work / "packets.csv"
        self._outcome: LinkOutcome | None = None
        self._name = f"lockstep-testbed-{os.getpid()}"
        command = [
            lockstep_command(),
            "emulate",
            "--tun",
            "--name",
            self._name,
            "--start",
            "signal",
            "--status",
            "json",
        ]
        command += ["--attached", "--log", str(self._log), *specification.words()]
        self._process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **apart()
        )
        ready = json.loads(_first_line(self._process, "lockstep emulate --tun"))
        near, far = (
            Side(("nsenter", f"--net={side['file']}", "--"), side["address"]) for side in (ready["near"], ready["far"])
        )
        self.sender, self.receiver = near, far

    def through(self, destination: str) -> str:
        """The destination itself: all packets pass the link."""
        return destination

    def begin(self) -> None:
        """Starts the traces; before, the link only delays packets."""
        self._process.send_signal(signal.SIGUSR1)

    def poll(self) -> None:
        """Detects that the link has ended."""
        _check_running(self._process)

    def stop(self) -> LinkOutcome:
        """Ends the link, which removes the namespaces, and reads its log."""
        if self._outcome is not None:
            return self._outcome
        assert self._process.stdin is not None  # noqa: S101
        assert self._process.stdout is not None  # noqa: S101
        offset = unix_offset()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        # The emulator prints its result and ends; a timer kills it if it does not.
        reading = threading.Timer(END_SECONDS, self._process.kill)
        reading.start()
        reports = [json.loads(line) for line in self._process.stdout.read().splitlines() if line.startswith(b"{")]
        reading.cancel()
        end(self._process)
        if self._process.returncode < 0:
            _remove_namespaces(self._name)
        result: dict[str, Any] = next((line for line in reports if line.get("event") == "result"), {})
        self._outcome = LinkOutcome(
            packets=read_packets(self._log, offset),
            lateness_p99_ms=(result.get("lateness") or {}).get("p99_ms"),
            details=result,
        )
        return self._outcome


def read_packets(log: Path, offset: float) -> polars.DataFrame:
    """The packet log of `lockstep emulate --log`, with times converted by ``offset``, its clock's lead."""
    try:
        rows = polars.read_csv(log, infer_schema_length=0)
    except (OSError, polars.exceptions.NoDataError):
        rows = polars.DataFrame(
            {name: [] for name in ("direction", "bytes", "in_s", "out_s", "fate")}, schema_overrides={}
        )
    out = polars.col("out_s").cast(polars.Float64) - offset
    return rows.select(
        polars.col("direction").cast(polars.String),
        (polars.col("in_s").cast(polars.Float64) - offset).alias("in_at"),
        polars.when(polars.col("fate") == "delivered").then(out).alias("out_at"),
        polars.col("bytes").cast(polars.Int64),
        polars.col("fate").cast(polars.String),
    )


def open_link(kind: str, specification: LinkSpecification | None, work: Path) -> Link:
    """Opens a link for one run.

    Raises:
        TestbedError: If that is not possible; the message has the reason.

    """
    if specification is None or kind == "direct":
        return DirectLink()
    if kind == "relay":
        return RelayLink(specification)
    return TunLink(specification, work)


def _first_line(process: subprocess.Popen[bytes], name: str) -> str:
    """The first line that a process prints; otherwise raises an error with its error output."""
    assert process.stdout is not None  # noqa: S101
    deadline = now() + READY_SECONDS
    ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - now()))
    line = process.stdout.readline().decode(errors="replace").strip() if ready else ""
    if not line:
        process.kill()
        errors = process.stderr.read().decode(errors="replace").strip() if process.stderr else ""
        end(process)
        raise TestbedError(f"{name} did not start: {errors or f'no output within {READY_SECONDS:.0f} s'}")
    return line


def _check_running(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        return
    lines = process.stderr.read().decode(errors="replace").strip().splitlines() if process.stderr else []
    why = lines[-1].removeprefix("lockstep: ") if lines else "no message"
    raise TestbedError(f"the link ended during the run with status {process.returncode}: {why}")


def _remove_namespaces(name: str) -> None:
    """Removes the namespaces of a link that was killed."""
    for side in ("near", "far"):
        if (NAMES / f"{name}-{side}").exists():
            subprocess.run(["ip", "netns", "del", f"{name}-{side}"], check=False, capture_output=True)  # noqa: S603, S607


def check(specification: LinkSpecification) -> None:
    """Lets `lockstep emulate` parse the options of a link before any run.

    Raises:
        TestbedError: If it refuses them; the message has the reason.

    """
    # Status 77 means valid options without the rights to make a link.
    tried = _try(specification.words())
    if tried.returncode not in (0, 77):
        lines = [line for line in tried.stderr.strip().splitlines() if line and not line.startswith("For more")]
        why = lines[0].removeprefix("lockstep: ").removeprefix("error: ") if lines else f"status {tried.returncode}"
        raise TestbedError(f"cannot make a link with {' '.join(specification.words())}: {why}")


def _try(words: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Makes a link for a program that does nothing."""
    command = [lockstep_command(), "emulate", "--tun", "--name", f"lockstep-testbed-{os.getpid()}-try", *words]
    return subprocess.run([*command, "--", "true"], check=False, capture_output=True, text=True)  # noqa: S603


def dropped(packets: polars.DataFrame) -> float:
    """Share of forward packets that were dropped."""
    forward = packets.filter(polars.col("direction") == "forward")
    return float(forward["out_at"].null_count() / len(forward)) if len(forward) else 0.0


def rates(packets: polars.DataFrame, direction: str, start: float, end: float, bins: Sequence[float]) -> list[float]:
    """Delivered bit/s in each of ``bins`` (their starts, evenly spaced) between ``start`` and ``end``."""
    width = (end - start) / max(len(bins), 1)
    passed = packets.filter(
        (polars.col("direction") == direction) & polars.col("out_at").is_between(start, end, "left")
    )
    totals = [0.0] * len(bins)
    for at, size in passed.select("out_at", "bytes").iter_rows():
        totals[min(int((at - start) / width), len(bins) - 1)] += 8.0 * size
    return [total / width for total in totals]


def missing(kind: str) -> str | None:
    """Missing requirements of a kind of link; None if it can be made."""
    if kind != "tun":
        return None
    if os.geteuid() != 0:
        return "network namespaces require root, or a user namespace around the testbed"
    tried = _try([])
    if tried.returncode == 0:
        return None
    lines = tried.stderr.strip().splitlines()
    return (
        lines[-1].removeprefix("lockstep: ")
        if lines
        else f"lockstep emulate --tun failed with status {tried.returncode}"
    )
