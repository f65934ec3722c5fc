"""Controllers in Python: a class decides how much a call may send.

Subclass :class:`Controller`, and pass it to :func:`lockstep.simulate`, or run it as a program with :func:`serve`::

    class Mine(lockstep.Controller):
        def allowance(self, path, sending):
            return 700_000

    lockstep.simulate("constant:2mbps", controller=Mine)

Times are milliseconds since the call began, rates bits per second, sizes bytes with headers; a value that is not known
is None. ``docs/reference/controller-protocol.md`` says more of each field.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec


class Setting(msgspec.Struct, frozen=True):
    """The call that a controller is for."""

    payload_bytes: int
    """Most bytes of a frame that a packet carries."""
    frame_interval_ms: float
    """Time between two frames of the source."""
    initial_bps: int
    """Target before the first decision."""
    least_bps: int
    """Lower bound of the target."""
    most_bps: int
    """Upper bound of the target."""
    latency: str
    """Tolerated delay: ``low``, ``balanced`` or ``quality``."""
    seed: int
    """Seed of what is random in the controller."""


class PathView(msgspec.Struct, frozen=True):
    """The path at one moment."""

    now_ms: float
    """Time of the event."""
    round_trip_ms: float | None
    """Smoothed round-trip time."""
    last_round_trip_ms: float | None
    """Last sample of the round-trip time."""
    base_round_trip_ms: float | None
    """Sliding-window minimum of the round-trip time."""
    feedback_delay_ms: float
    """Mean time that feedback waits on its way back."""
    queueing_delay_ms: float | None
    """How long the newest acknowledged packet was queued."""
    window_ms: float
    """Length of the sliding window of ``delivered_bytes``."""
    delivered_bytes: int
    """Most bytes delivered in any window of the last 5 s."""
    burst_rate_bps: int | None
    """Delivery rate inside bursts of the last 2 s."""
    arrival_rate_bps: int
    """Rate at which the flow's packets arrived lately."""
    has_cross_traffic: bool
    """Whether packets wait behind cross traffic."""
    path_rate_bps: int | None
    """Rate of the path where cross traffic keeps its queue filled."""
    loss: float
    """Share of packets lost, 0 to 1."""
    is_silent: bool
    """Whether feedback is overdue."""
    is_restarting: bool
    """Whether a silence has ended and nothing sent since is acknowledged."""


class Packet(msgspec.Struct, frozen=True):
    """A packet that arrived."""

    frame: int
    """Number of its frame."""
    fragment: int
    """Its place in the frame."""
    bytes: int
    """Its size."""
    sent_ms: float
    """When it left the sender, on the sender's clock."""
    arrived_ms: float
    """When it arrived, on the receiver's clock."""
    queued_ms: float
    """How long it was queued."""
    is_marked: bool
    """Whether a queue had marked it (ECN)."""


class LostPacket(msgspec.Struct, frozen=True):
    """A packet that was declared lost."""

    frame: int
    """Number of its frame."""
    fragment: int
    """Its place in the frame."""
    bytes: int
    """Its size."""
    sent_ms: float
    """When it left the sender."""


class Feedback(msgspec.Struct, frozen=True):
    """Feedback of the receiver."""

    packets: list[Packet]
    """Newly acknowledged packets, in the order of arrival."""
    found: int
    """Packets that had counted as lost and arrived after all."""
    received: int
    """Packets that arrived since the call began."""
    highest_sequence: int
    """Highest sequence number that arrived."""
    estimate_bps: int | None
    """Capacity that the receiver's estimator reports."""
    inter_arrival_ms: float | None
    """Smoothed time between arrivals that it reports."""


class Sending(msgspec.Struct, frozen=True):
    """What the sender has sent."""

    in_flight_packets: int
    """Packets sent or waiting in the pacer, neither acknowledged nor lost."""
    in_flight_bytes: int
    """Their bytes."""
    queued_bytes: int
    """The part of those bytes that waits in the pacer."""
    sent_bytes: int
    """Bytes sent since the call began."""
    skipped_pictures: int
    """Pictures skipped since the call began."""


class Allowance(msgspec.Struct, frozen=True, omit_defaults=True):
    """What may be sent."""

    target_bps: float
    """Bit rate of the video in the long run."""
    budget_bytes: float | None = None
    """Bytes that the next frame may have; those of a token bucket at the target if None."""
    pacing_interval_ms: float | None = None
    """Time between two packets; that of 2.5 times the target if None."""
    capacity_bps: float | None = None
    """Estimate of the capacity, for logs."""


class Controller(ABC):
    """Decides how much a sender may send. Only :meth:`allowance` is required."""

    def start(self, setting: Setting) -> None:  # noqa: B027 -- optional
        """A call begins; an object that controls more than one call forgets the last one here."""

    def on_feedback(self, path: PathView, feedback: Feedback) -> None:  # noqa: B027 -- optional
        """Feedback arrived; ``path`` includes it."""

    def on_loss(self, path: PathView, packets: list[LostPacket]) -> None:  # noqa: B027 -- optional
        """These packets were declared lost."""

    @abstractmethod
    def allowance(self, path: PathView, sending: Sending) -> Allowance | float:
        """What may be sent now: an :class:`Allowance`, or its target alone, bit/s.

        The call asks before each picture, and again after feedback and loss; a question changes nothing by itself.
        """


ControllerFactory: TypeAlias = Controller | type[Controller] | Callable[[], Controller]
"""A controller for one sending end, or what makes one for each: a class, or a function without arguments."""


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
    """The answer of ``controller`` to a line of the protocol. What it raises carries a note of the event.

    Raises:
        msgspec.DecodeError: If the line is none of the protocol.
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
    """What a controller returned, with whatever numbers it used."""
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
    """A controller as Rust takes it."""

    name: str
    make: Callable[[], Controller]
    answer: Callable[[Controller, str | bytes], str] = answer


def registered(given: ControllerFactory) -> Registered:
    """What Rust takes for ``given``. What makes no controller raises a ``TypeError`` when the call begins."""
    if isinstance(given, Controller):
        left = [given]

        def once() -> Controller:
            if not left:
                raise ValueError("controller: a call in both directions needs two; pass the class, or a function")
            return left.pop()

        return Registered(type(given).__name__, once)

    def make() -> Controller:
        made = given()
        if not isinstance(made, Controller):
            message = f"controller: {given!r} made {made!r}, which is no lockstep.Controller"
            raise TypeError(message)
        return made

    return Registered(getattr(given, "__name__", type(given).__name__).strip("<>"), make)


def serve(controller: Controller) -> None:
    """Answers the lines on standard input until it ends: a program for ``--controller program:FILE``.

    Whatever else the program prints goes to standard error.
    """
    answers, sys.stdout = sys.stdout, sys.stderr
    try:
        for line in sys.stdin:
            answers.write(answer(controller, line) + "\n")
            answers.flush()
    finally:
        sys.stdout = answers
