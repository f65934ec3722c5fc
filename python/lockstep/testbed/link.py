"""The link between the two ends of a call: one that is emulated for all packets, or for what goes through relays, or none.

`tun` is the link that the issue of measuring is about: two network namespaces with a TUN device each, and
`lockstep emulate --tun` between them, for programs as they are. It takes root or user namespaces. `relay` takes no rights:
`lockstep emulate` passes UDP on, and where the program says its addresses (WebRTC's candidates, Lockstep's ticket) the relay's
stands instead. `direct` is no link at all: the ruler's own error, and the program's own delay.
"""

import re
import select
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import polars

from lockstep.testbed.decoding import lockstep_command
from lockstep.testbed.machine import now
from lockstep.testbed.programs import Side, TestbedError

KINDS = ("tun", "relay", "direct")
READY_SECONDS = 10.0
END_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class LinkSpecification:
    """A link as data: the words that `lockstep emulate` takes."""

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
    """What the link says of a run."""

    packets: polars.DataFrame | None = None
    """One row a packet: `direction` (`forward` or `reverse`), `in_at`, `out_at` (s, the machine's clock; none where it was
    dropped), `bytes` as IP has them; none where the link keeps no such log."""
    lateness_p99_ms: float | None = None
    """By how much packets left later than the model of the link says; none where that is not known."""
    details: dict[str, Any] = field(default_factory=dict)


class Link(Protocol):
    """A link for one run."""

    sender: Side
    receiver: Side

    def through(self, destination: str) -> str:
        """Where the sender shall send instead of ``destination`` (an address and port, or a ticket of Lockstep)."""

    def stop(self) -> LinkOutcome:
        """Ends the link; may be called again."""


class DirectLink:
    """No link: both ends on this machine."""

    def __init__(self) -> None:
        """Nothing is started."""
        self.sender = self.receiver = Side()

    def through(self, destination: str) -> str:
        """The destination itself."""
        return destination

    def stop(self) -> LinkOutcome:
        """Nothing is known of it."""
        return LinkOutcome()


class RelayLink:
    """`lockstep emulate` between two ends that have no namespaces of their own."""

    def __init__(self, specification: LinkSpecification) -> None:
        """Nothing is started before it is known where the far end is."""
        self._specification = specification
        self._process: subprocess.Popen[bytes] | None = None
        self.sender = self.receiver = Side()

    def through(self, destination: str) -> str:
        """Starts the emulator towards ``destination``, and gives its own address, or the ticket that leads through it."""
        address = re.fullmatch(r"(\[[0-9a-f:]+\]|[0-9.]+):\d+", destination)
        # The far end may be bound to one address of this machine only: the relay's is the same.
        listen = ["--listen", f"{address[1]}:0"] if address else []
        command = [lockstep_command(), "emulate", *listen, *self._specification.words(), destination]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # noqa: S603
        line = _first_line(self._process, "lockstep emulate")
        if found := re.match(r"ticket: (\S+)", line):
            return found[1]
        if found := re.match(r"emulating a link from (\S+) to", line):
            return found[1].rstrip(",")
        raise TestbedError(f"lockstep emulate said {line!r}, which is no address")

    def stop(self) -> LinkOutcome:
        """Ends the emulator."""
        _end(self._process)
        return LinkOutcome()


def open_link(kind: str, specification: LinkSpecification | None, work: Path) -> Link:
    """A link for one run.

    Raises:
        TestbedError: If it cannot be made here; says what is missing.

    """
    if specification is None or kind == "direct":
        return DirectLink()
    if kind == "relay":
        return RelayLink(specification)
    raise TestbedError(f"there is no link of kind {kind!r}; there are {', '.join(KINDS)} ({work})")


def _first_line(process: subprocess.Popen[bytes], name: str) -> str:
    """The first line that a process prints, or an error with what it said instead."""
    assert process.stdout is not None  # noqa: S101
    deadline = now() + READY_SECONDS
    ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - now()))
    line = process.stdout.readline().decode(errors="replace").strip() if ready else ""
    if not line:
        _end(process)
        said = process.stderr.read().decode(errors="replace").strip() if process.stderr else ""
        raise TestbedError(f"{name} did not start: {said or f'it said nothing within {READY_SECONDS:.0f} s'}")
    return line


def _end(process: subprocess.Popen[bytes] | None) -> None:
    if process is None or process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def dropped(packets: polars.DataFrame) -> float:
    """The share of forward packets that were dropped."""
    forward = packets.filter(polars.col("direction") == "forward")
    return float(forward["out_at"].null_count() / len(forward)) if len(forward) else 0.0


def rates(packets: polars.DataFrame, direction: str, start: float, end: float, bins: Sequence[float]) -> list[float]:
    """Bit/s delivered in each of ``bins`` (their starts, evenly spaced) between ``start`` and ``end``."""
    width = (end - start) / max(len(bins), 1)
    passed = packets.filter((polars.col("direction") == direction) & polars.col("out_at").is_between(start, end, "left"))
    totals = [0.0] * len(bins)
    for at, size in passed.select("out_at", "bytes").iter_rows():
        totals[min(int((at - start) / width), len(bins) - 1)] += 8.0 * size
    return [total / width for total in totals]


def missing(kind: str) -> str | None:
    """What a kind of link takes and is not here; None if it can be made."""
    if kind == "tun":
        return "lockstep emulate --tun is not there yet"
    return None
