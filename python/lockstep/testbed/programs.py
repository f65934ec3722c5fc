"""What is measured: programs for video calls, each told the clip, where its two ends run, and when to stop."""

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
"""All samples of a picture in one row: I420, its planes one after the other."""


class TestbedError(ValueError):
    """Why nothing can be measured; the message says what to do."""


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
    """Where an end of the call runs: what stands before its command, and its address."""

    enter: tuple[str, ...] = ()
    address: str = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Setting:
    """What a program is told of a run."""

    clip: Clip
    sender: Side
    receiver: Side
    work: Path
    """A folder for whatever it needs; it is gone afterwards."""
    through: Callable[[str], str] = str
    """Where the sender shall send instead of an address and port (or a ticket) of the receiver: links without
    namespaces of their own stand in between there. Others give back what they are given."""
    begin: Callable[[], None] = lambda: None
    """To be called when the ends join: the link's trace begins then."""
    relayed: bool = False
    """Whether the link stands in between there."""
    session_log: bool = False
    """Whether the session log of the run is asked for."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A picture that the receiver showed: when, and under which key `Outcome.pictures` has it."""

    sight: Sight
    key: int


@dataclass(frozen=True, slots=True)
class OwnSession:
    """What a program says of its own call, in the columns of session logs: rows of whole seconds from ``at`` on."""

    at: float
    seconds: polars.DataFrame
    controller: str = ""
    codec: str = ""


@dataclass(slots=True)
class Outcome:
    """What a call left."""

    previews: list[Sight]
    """What the sender's own camera gave, with the time at which it was read."""
    shown: list[Shown]
    schedule: Schedule | None = None
    """The capture schedule where the program itself logs it, and none where it comes of `previews`."""
    unread: int = 0
    """Pictures shown in which the two barcodes could not be read, or did not agree."""
    clock_error: float = 0.0
    """How far apart the clocks of ends and machine may have been read, s."""
    read_seconds: float = 0.0
    """How long reading the barcodes of a picture took (p99), s: what the reading itself adds."""
    limited: Sequence[str] = ()
    """What the encoder said it was limited by, over the call."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What else the program says of itself, for the log."""
    session: OwnSession | None = None


class Program(Protocol):
    """A program under test: made for one run."""

    def start(self, setting: Setting) -> Mapping[str, int]:
        """Starts both ends and joins them; gives the first process of each, `sender` and `receiver`."""

    def poll(self) -> None:
        """Called once a second while the call runs."""

    def stop(self) -> Outcome:
        """Ends the call, and gives what was read."""

    def pictures(self) -> Iterator[tuple[int, Samples]]:
        """After the call, the pictures that were shown, by their keys, in order of keys, at the clip's size."""

    def close(self) -> None:
        """Ends whatever still runs; may be called at any time, and again."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of programs: what makes one, what is said of it, and the options it takes with their defaults."""

    module: str
    meaning: str
    options: Mapping[str, str]


KINDS = {
    "chromium": Kind(
        "lockstep.testbed.chromium",
        "WebRTC of the system's Chromium, as any page has it",
        {"codec": "vp8", "cap": "default", "layers": "none", "degradation": "default"},
    ),
    "lockstep": Kind(
        "lockstep.testbed.own",
        "`lockstep send` and `lockstep receive`",
        {"controller": "lockstep", "codec": "functional", "grace": "default"},
    ),
    "firefox": Kind(
        "lockstep.testbed.firefox",
        "WebRTC of the system's Firefox, as any page has it; its camera is a <video> that plays the clip without loss",
        {"codec": "vp8", "cap": "default"},
    ),
    "aiortc": Kind("lockstep.testbed.aiortc_call", "WebRTC in Python: VP8, REMB", {}),
    "gstreamer": Kind(
        "lockstep.testbed.gstreamer_call",
        "webrtcbin of the system's GStreamer: VP8 at one bit rate, without a bandwidth estimate",
        {"bitrate": "1700kbps", "latency": "200"},
    ),
    "str0m": Kind(
        "lockstep.testbed.str0m_call",
        "WebRTC in Rust with its own bandwidth estimate, fed with frames of our codec at that rate",
        {"cap": "3500kbps"},
    ),
}
"""Kinds of programs by name."""


@dataclass(frozen=True, slots=True)
class Named:
    """A program as people name it: `chromium`, or `chromium:codec=vp9,layers=L1T3`."""

    name: str
    kind: str
    options: Mapping[str, str]


def parse(name: str) -> Named:
    """Reads a program's name.

    Raises:
        TestbedError: If there is no such program or option.

    """
    kind, _, words = name.partition(":")
    if kind not in KINDS:
        raise TestbedError(f"there is no program called {kind!r}; there are {', '.join(KINDS)}")
    options = dict(KINDS[kind].options)
    for word in filter(None, words.split(",")):
        option, equals, value = word.partition("=")
        if not equals or option not in options:
            raise TestbedError(f"{name}: {word!r} is no option of {kind}; it takes {', '.join(options)} as NAME=VALUE")
        options[option] = value
    return Named(name, kind, options)


def executable(name: str, package: str) -> str:
    """Where a command is.

    Raises:
        TestbedError: If it is not installed; says which package has it.

    """
    found = shutil.which(name)
    if found is None:
        raise TestbedError(f"{name} is not installed (Debian, Ubuntu: apt install {package})")
    return found
