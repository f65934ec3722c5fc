"""Controllers in Python: a class decides how much a call may send.

Subclass :class:`Controller`, and pass it to :func:`lockstep.simulate`, or run it as a program with :func:`serve`::

    class Mine(lockstep.Controller):
        def allowance(self, path, sending):
            return 700_000

    lockstep.simulate("constant:2mbps", controller=Mine)

Times are milliseconds since the call began, rates bits per second, sizes bytes with headers. The budget of a frame is
without headers, and each queued packet counts with a full payload. An unknown value is None.
``docs/reference/controller-protocol.md`` describes each field.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec


class Setting(msgspec.Struct, frozen=True):
    """The call for which the controller is created."""

    payload_bytes: int
    """Largest number of frame bytes in one packet."""
    frame_interval_ms: float
    """Time between two captured pictures."""
    initial_bps: int
    """Target before the first decision."""
    least_bps: int
    """Lower bound of the target."""
    most_bps: int
    """Upper bound of the target."""
    latency: str
    """Tolerated delay: ``low``, ``balanced`` or ``quality``."""
    seed: int
    """Seed for random numbers of the controller."""


class PathView(msgspec.Struct, frozen=True):
    """Measurements of the path at one moment."""

    now_ms: float
    """Time of the event."""
    round_trip_ms: float | None
    """Smoothed round-trip time."""
    last_round_trip_ms: float | None
    """Last sample of the round-trip time."""
    base_round_trip_ms: float | None
    """Sliding-window minimum of the round-trip time."""
    feedback_delay_ms: float
    """Mean time that the receiver delays feedback."""
    queueing_delay_ms: float | None
    """Queueing delay of the newest acknowledged packet."""
    window_ms: float
    """Length of the sliding window of ``delivered_bytes``."""
    delivered_bytes: int
    """Most bytes delivered in any window of the last 5 s."""
    burst_rate_bps: int | None
    """Delivery rate inside bursts of the last 2 s."""
    arrival_rate_bps: int
    """Rate at which recent packets of the flow arrived."""
    has_cross_traffic: bool
    """Whether packets queue behind cross traffic."""
    path_rate_bps: int | None
    """Delivery rate of the path while cross traffic keeps the queue full."""
    loss: float
    """Share of packets lost, 0 to 1."""
    is_silent: bool
    """Whether feedback is overdue."""
    is_restarting: bool
    """Whether an outage has ended and no packet sent since is acknowledged. False if the path drops again."""


class Packet(msgspec.Struct, frozen=True):
    """A packet that arrived."""

    frame: int
    """Number of its frame."""
    fragment: int
    """Its index in the frame."""
    bytes: int
    """Its size in bytes."""
    sent_ms: float
    """When it left the sender, on the sender's clock."""
    arrived_ms: float
    """When it arrived, on the receiver's clock."""
    queued_ms: float
    """Its queueing delay."""
    is_marked: bool
    """Whether a queue marked it (ECN)."""


class LostPacket(msgspec.Struct, frozen=True):
    """A packet that was declared lost."""

    frame: int
    """Number of its frame."""
    fragment: int
    """Its index in the frame."""
    bytes: int
    """Its size in bytes."""
    sent_ms: float
    """When it left the sender."""


class Feedback(msgspec.Struct, frozen=True):
    """Feedback from the receiver."""

    packets: list[Packet]
    """Newly acknowledged packets, in order of arrival."""
    found: int
    """Packets declared lost that arrived later."""
    received: int
    """Packets that arrived since the call began."""
    highest_sequence: int
    """Highest sequence number that arrived."""
    estimate_bps: int | None
    """Capacity that the receiver's estimator reports, or None."""
    inter_arrival_ms: float | None
    """Smoothed time between arrivals that the estimator reports, or None."""


class Sending(msgspec.Struct, frozen=True):
    """State of the sender."""

    in_flight_packets: int
    """Packets sent or waiting in the pacer, neither acknowledged nor lost."""
    in_flight_bytes: int
    """Bytes of those packets."""
    queued_bytes: int
    """Part of those bytes that waits in the pacer."""
    sent_bytes: int
    """Bytes sent since the call began."""
    skipped_pictures: int
    """Pictures skipped since the call began."""


class Allowance(msgspec.Struct, frozen=True, omit_defaults=True):
    """Limits for the sender."""

    target_bps: float
    """Long-term bit rate of the video."""
    budget_bytes: float | None = None
    """Bytes for the next frame; None uses a token bucket filled at the target."""
    pacing_interval_ms: float | None = None
    """Time between two packets; None uses 2.5 times the target."""
    capacity_bps: float | None = None
    """Estimate of the capacity, for logs."""


class Controller(ABC):
    """Decides how much a sender may send. Only :meth:`allowance` is required."""

    def start(self, setting: Setting) -> None:  # noqa: B027 -- optional
        """A call begins. An object that controls several calls resets its state here."""

    def on_feedback(self, path: PathView, feedback: Feedback) -> None:  # noqa: B027 -- optional
        """Feedback arrived; ``path`` already includes it."""

    def on_loss(self, path: PathView, packets: list[LostPacket]) -> None:  # noqa: B027 -- optional
        """These packets were declared lost."""

    @abstractmethod
    def allowance(self, path: PathView, sending: Sending) -> Allowance | float:
        """The current allowance: an :class:`Allowance`, or its target alone, bit/s.

        The sender asks before each picture and after each feedback and loss. Asking must not change state.
        """


ControllerFactory: TypeAlias = Controller | type[Controller] | Callable[[], Controller]
"""A controller for one sender, or a class or function without arguments that creates one for each sender."""


class _Hello(Setting, frozen=True, tag_field="event", tag="hello"):
    version: int


class _Feedback(Feedback, frozen=True, tag_field="event", tag="feedback"):
    path: PathView


class _Lost(msgspec.Struct, frozen=True, tag_field="event", tag="lost"):
    path: PathView
    packets: list[LostPacket]


class _Allowance(Sending, frozen=True, tag_field="event", tag="allowance"):
    path: PathView


_DECODER = msgspec.json.Decoder(_Hello | _Feedback | _Lost | _Allowance)


def answer(controller: Controller, line: str | bytes) -> str:
    """The reply of ``controller`` to a line of the protocol. Exceptions get a note that names the event.

    Raises:
        msgspec.DecodeError: If the line does not follow the protocol.
        TypeError: If the allowance is neither a number nor an :class:`Allowance`.

    """
    event = _DECODER.decode(line)
    name = event.__struct_config__.tag
    try:
        match event:
            case _Hello():
                controller.start(event)
            case _Feedback():
                controller.on_feedback(event.path, event)
            case _Lost():
                controller.on_loss(event.path, event.packets)
            case _Allowance():
                return msgspec.json.encode(_allowance(controller.allowance(event.path, event))).decode()
    except Exception as error:
        at = "" if isinstance(event, _Hello) else f" at {event.path.now_ms / 1e3:.3f} s of the call"
        error.add_note(f"controller {type(controller).__name__}, event {name}{at}")
        raise
    return "{}"


def _allowance(decided: Any) -> Allowance:
    """The result of a controller with all numbers as floats."""
    if isinstance(decided, Allowance):
        fields = {name: getattr(decided, name) for name in Allowance.__struct_fields__}
    else:
        fields = {"target_bps": decided}
    for name, value in fields.items():
        if value is None and name != "target_bps":
            continue
        try:
            fields[name] = float(value)
        except (TypeError, ValueError):
            message = f"allowance: {name}: expected a number, found {value!r}; return an Allowance or a rate in bit/s"
            raise TypeError(message) from None
    return Allowance(**fields)


@dataclass(frozen=True)
class Registered:
    """A controller in the form that Rust calls."""

    name: str
    make: Callable[[], Controller]
    answer: Callable[[Controller, str | bytes], str] = answer


def registered(given: ControllerFactory) -> Registered:
    """Wraps ``given`` for Rust. A wrong kind of object raises ``TypeError`` when the call begins."""
    if isinstance(given, Controller):
        left = [given]

        def once() -> Controller:
            if not left:
                raise ValueError("controller: a two-way call needs two; pass the class or a function")
            return left.pop()

        return Registered(type(given).__name__, once)

    def make() -> Controller:
        made = given()
        if not isinstance(made, Controller):
            message = f"controller: {given!r} made {made!r}, expected a lockstep.Controller"
            raise TypeError(message)
        return made

    return Registered(getattr(given, "__name__", type(given).__name__).strip("<>"), make)


def serve(controller: Controller) -> None:
    """Answers the lines on standard input until it ends: the main loop of a program for ``--controller program:FILE``.

    Other output of the program goes to standard error.
    """
    answers, sys.stdout = sys.stdout, sys.stderr
    try:
        for line in sys.stdin:
            answers.write(answer(controller, line) + "\n")
            answers.flush()
    finally:
        sys.stdout = answers
