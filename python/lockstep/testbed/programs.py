"""Interface of the measured programs: programs for video calls with a clip and two ends."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars
from numpy.typing import NDArray

from lockstep.testbed.ruler import Schedule, Sight

Luma = NDArray[np.uint8]
"""The luma of a picture, rows by columns."""
Samples = NDArray[np.uint8]
"""All samples of a picture in one row: the I420 planes in order."""


class TestbedError(ValueError):
    """A measurement is not possible; the message has the reason and a remedy."""


@dataclass(frozen=True, slots=True)
class Clip:
    """A barcoded y4m file."""

    path: Path
    width: int
    height: int
    rate: float
    frames: int

    def luma(self, samples: Samples) -> Luma:
        """The luma of a picture of this size."""
        return samples[: self.width * self.height].reshape(self.height, self.width)


@dataclass(frozen=True, slots=True)
class Side:
    """Location of an end: the prefix of its command, and its address."""

    enter: tuple[str, ...] = ()
    address: str = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Setting:
    """Settings of a run for a program."""

    clip: Clip
    sender: Side
    receiver: Side
    work: Path
    """A folder for temporary files of the program."""
    through: Callable[[str], str] = str
    """Maps an address and port (or a ticket) of the receiver to the destination for the sender. Links without
    namespaces return the address of their relay, others the argument itself."""
    begin: Callable[[], None] = lambda: None
    """Callback when the ends join; it starts the link's trace."""
    relayed: bool = False
    """Whether the link is a relay between the ends."""
    session_log: bool = False
    """Whether the run writes a session log."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A picture that the receiver displayed: its sight, and its key in `Outcome.pictures`."""

    sight: Sight
    key: int


@dataclass(frozen=True, slots=True)
class OwnSession:
    """A program's own statistics in the columns of session logs: rows of whole seconds from ``at`` on."""

    at: float
    seconds: polars.DataFrame
    controller: str = ""
    codec: str = ""


@dataclass(slots=True)
class Outcome:
    """Results of a call."""

    previews: list[Sight]
    """Pictures of the sender's camera, with the times at which they were read."""
    shown: list[Shown]
    schedule: Schedule | None = None
    """The capture schedule if the program logs it; otherwise `previews` gives it."""
    unread: int = 0
    """Number of displayed pictures whose two barcodes were unreadable or different."""
    clock_error: float = 0.0
    """Largest error between the clocks of the ends and the machine, s."""
    read_seconds: float = 0.0
    """Time to read the barcodes of a picture (p99), s; it adds to the measured delay."""
    limited: Sequence[str] = ()
    """Limitations that the encoder reported during the call."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Other data of the program, for the log."""
    session: OwnSession | None = None


class Program(Protocol):
    """A program under test, created for one run."""

    def start(self, setting: Setting) -> Mapping[str, int]:
        """Starts both ends and joins them; returns the first process of each, `sender` and `receiver`."""

    def poll(self) -> None:
        """Is called once a second during the call."""

    def stop(self) -> Outcome:
        """Ends the call; returns its results."""

    def pictures(self) -> Iterator[tuple[int, Samples]]:
        """After the call, the displayed pictures at the clip's size with their keys, in order of keys."""

    def close(self) -> None:
        """Ends all remaining processes; may be called at any time, repeatedly."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of programs: its module, its description, and its options with defaults."""

    module: str
    meaning: str
    options: Mapping[str, str]


KINDS = {
    "chromium": Kind(
        "lockstep.testbed.chromium",
        "WebRTC of the system's Chromium, as for any page",
        {"codec": "vp8", "cap": "default", "layers": "none", "degradation": "default", "hint": "default"},
    ),
    "lockstep": Kind(
        "lockstep.testbed.own",
        "`lockstep send` and `lockstep receive`",
        {"controller": "lockstep", "codec": "functional", "grace": "default", "content": "camera"},
    ),
    "lockstep-web": Kind(
        "lockstep.testbed.web",
        "Lockstep's page in the system's Chromium at one end, `lockstep` at the other",
        {"page": "receiver", "codec": "functional"},
    ),
    "firefox": Kind(
        "lockstep.testbed.firefox",
        "WebRTC of the system's Firefox, as for any page; its camera is a <video> that plays a lossless clip",
        {"codec": "vp8", "cap": "default"},
    ),
    "aiortc": Kind("lockstep.testbed.aiortc_call", "WebRTC in Python: VP8, REMB", {}),
    "gstreamer": Kind(
        "lockstep.testbed.gstreamer_call",
        "webrtcbin of the system's GStreamer: VP8 at one bit rate, or with control=gcc at the rate of rtpgccbwe",
        {"control": "fixed", "bitrate": "1700kbps", "start": "2048kbps", "cap": "3500kbps", "latency": "200"},
    ),
    "str0m": Kind(
        "lockstep.testbed.str0m_call",
        "WebRTC in Rust with its own bandwidth estimate, with frames of Lockstep's codec at that rate",
        {"cap": "3500kbps"},
    ),
    "pion": Kind(
        "lockstep.testbed.pion_call",
        "WebRTC in Go with its own bandwidth estimate, with frames of libvpx at that rate",
        {"start": "300kbps", "cap": "3500kbps"},
    ),
}
"""Kinds of programs by name."""


@dataclass(frozen=True, slots=True)
class Named:
    """A program by name: `chromium`, or `chromium:codec=vp9,layers=L1T3`."""

    name: str
    kind: str
    options: Mapping[str, str]


def parse(name: str) -> Named:
    """Parses a program's name.

    Raises:
        TestbedError: If the program or an option is unknown.

    """
    kind, _, words = name.partition(":")
    if kind not in KINDS:
        raise TestbedError(f"unknown program {kind!r}; expected one of {', '.join(KINDS)}")
    options = dict(KINDS[kind].options)
    for word in filter(None, words.split(",")):
        option, equals, value = word.partition("=")
        if not equals or option not in options:
            raise TestbedError(
                f"{name}: {word!r} is not an option of {kind}; expected {', '.join(options)} as NAME=VALUE"
            )
        options[option] = value
    return Named(name, kind, options)


def executable(name: str, package: str) -> str:
    """The path of a command.

    Raises:
        TestbedError: If it is not installed; the message names the package.

    """
    found = shutil.which(name)
    if found is None:
        raise TestbedError(f"{name} is not installed (Debian, Ubuntu: apt install {package})")
    return found
