"""The link between the two ends of a call: emulated for all packets, or for what goes through relays, or none.

`tun` is the link that the issue of measuring is about: two network namespaces with a TUN device each, and
`lockstep emulate --tun` between them, for programs as they are. It takes root or user namespaces. `relay` takes no
rights: `lockstep emulate` passes UDP on, and where the program says its addresses (WebRTC's candidates, Lockstep's
ticket) the relay's stands instead. `direct` is no link at all: the ruler's own error, and the program's own delay.
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
"""Where network namespaces have their names (iproute2)."""


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
    """One row a packet: `direction` (`forward` or `reverse`), `in_at`, `out_at` (s, the machine's clock; none where it
    was dropped), `bytes` as IP has them, `fate`; none where the link keeps no such log."""
    lateness_p99_ms: float | None = None
    """By how much packets left later than the model of the link says; none where that is not known."""
    details: dict[str, Any] = field(default_factory=dict)


class Link(Protocol):
    """A link for one run."""

    sender: Side
    receiver: Side

    def through(self, destination: str) -> str:
        """Where the sender shall send instead of ``destination`` (an address and port, or a ticket of Lockstep)."""

    def begin(self) -> None:
        """The ends join now: from here on the link has the capacity of its trace."""

    def poll(self) -> None:
        """Called once a second while the call runs; a link that is there no more is a `TestbedError`."""

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

    def begin(self) -> None:
        """Nothing begins."""

    def poll(self) -> None:
        """Nothing can fail."""

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
        """Starts the emulator towards ``destination``; gives its address, or the ticket that leads through it."""
        address = re.fullmatch(r"(\[[0-9a-f:]+\]|[0-9.]+):\d+", destination)
        # The far end may be bound to one address of this machine only: the relay's is the same.
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
        raise TestbedError(f"lockstep emulate said {line!r}, which is no address")

    def begin(self) -> None:
        """The emulator's trace begins with the first datagram."""

    def poll(self) -> None:
        """Notices an emulator that ended."""
        if self._process is not None:
            _check_running(self._process)

    def stop(self) -> LinkOutcome:
        """Ends the emulator."""
        end(self._process, signal.SIGINT)
        return LinkOutcome()


class TunLink:
    """`lockstep emulate --tun`: two network namespaces, and nothing but this link between them."""

    def __init__(self, specification: LinkSpecification, work: Path) -> None:
        """Makes the namespaces.

        Raises:
            TestbedError: If that cannot be done here; says what is missing.

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
        """Starts the traces; until then packets have had the delay only."""
        self._process.send_signal(signal.SIGUSR1)

    def poll(self) -> None:
        """Notices a link that ended."""
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
        # It says its result and ends; one that does not is ended.
        reading = threading.Timer(END_SECONDS, self._process.kill)
        reading.start()
        said = [json.loads(line) for line in self._process.stdout.read().splitlines() if line.startswith(b"{")]
        reading.cancel()
        end(self._process)
        if self._process.returncode < 0:
            _remove_namespaces(self._name)
        result: dict[str, Any] = next((line for line in said if line.get("event") == "result"), {})
        self._outcome = LinkOutcome(
            packets=read_packets(self._log, offset),
            lateness_p99_ms=(result.get("lateness") or {}).get("p99_ms"),
            details=result,
        )
        return self._outcome


def read_packets(log: Path, offset: float) -> polars.DataFrame:
    """The log of packets that `lockstep emulate --log` wrote, by the clock that its own is ``offset`` ahead of."""
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
    """A link for one run.

    Raises:
        TestbedError: If it cannot be made here; says what is missing.

    """
    if specification is None or kind == "direct":
        return DirectLink()
    if kind == "relay":
        return RelayLink(specification)
    return TunLink(specification, work)


def _first_line(process: subprocess.Popen[bytes], name: str) -> str:
    """The first line that a process prints, or an error with what it said instead."""
    assert process.stdout is not None  # noqa: S101
    deadline = now() + READY_SECONDS
    ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - now()))
    line = process.stdout.readline().decode(errors="replace").strip() if ready else ""
    if not line:
        process.kill()
        said = process.stderr.read().decode(errors="replace").strip() if process.stderr else ""
        end(process)
        raise TestbedError(f"{name} did not start: {said or f'it said nothing within {READY_SECONDS:.0f} s'}")
    return line


def _check_running(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        return
    said = process.stderr.read().decode(errors="replace").strip().splitlines() if process.stderr else []
    why = said[-1].removeprefix("lockstep: ") if said else "it said nothing"
    raise TestbedError(f"the link ended in the middle of the run, with status {process.returncode}: {why}")


def _remove_namespaces(name: str) -> None:
    """Removes what a link that was killed could not remove itself."""
    for side in ("near", "far"):
        if (NAMES / f"{name}-{side}").exists():
            subprocess.run(["ip", "netns", "del", f"{name}-{side}"], check=False, capture_output=True)  # noqa: S603, S607


def check(specification: LinkSpecification) -> None:
    """Has `lockstep emulate` read the words of a link, before anything is run over it.

    Raises:
        TestbedError: If it refuses them; says why.

    """
    # Without the rights to make the link it ends with 77, when it has read all of it.
    tried = _try(specification.words())
    if tried.returncode not in (0, 77):
        said = [line for line in tried.stderr.strip().splitlines() if line and not line.startswith("For more")]
        why = said[0].removeprefix("lockstep: ").removeprefix("error: ") if said else f"status {tried.returncode}"
        raise TestbedError(f"no link can be made with {' '.join(specification.words())}: {why}")


def _try(words: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Makes a link for a program that does nothing."""
    command = [lockstep_command(), "emulate", "--tun", "--name", f"lockstep-testbed-{os.getpid()}-try", *words]
    return subprocess.run([*command, "--", "true"], check=False, capture_output=True, text=True)  # noqa: S603


def dropped(packets: polars.DataFrame) -> float:
    """The share of forward packets that were dropped."""
    forward = packets.filter(polars.col("direction") == "forward")
    return float(forward["out_at"].null_count() / len(forward)) if len(forward) else 0.0


def rates(packets: polars.DataFrame, direction: str, start: float, end: float, bins: Sequence[float]) -> list[float]:
    """Bit/s delivered in each of ``bins`` (their starts, evenly spaced) between ``start`` and ``end``."""
    width = (end - start) / max(len(bins), 1)
    passed = packets.filter(
        (polars.col("direction") == direction) & polars.col("out_at").is_between(start, end, "left")
    )
    totals = [0.0] * len(bins)
    for at, size in passed.select("out_at", "bytes").iter_rows():
        totals[min(int((at - start) / width), len(bins) - 1)] += 8.0 * size
    return [total / width for total in totals]


def missing(kind: str) -> str | None:
    """What a kind of link takes and is not here; None if it can be made."""
    if kind != "tun":
        return None
    if os.geteuid() != 0:
        return "namespaces for both ends take root, or a user namespace around all of the testbed"
    tried = _try([])
    if tried.returncode == 0:
        return None
    said = tried.stderr.strip().splitlines()
    return said[-1].removeprefix("lockstep: ") if said else f"lockstep emulate --tun ended with {tried.returncode}"
