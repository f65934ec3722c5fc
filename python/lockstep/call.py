"""Live calls: frames as NumPy arrays, messages and events.

Both ends of a call meet by a ticket: one end listens and hands its ticket out, the other joins with it.

Example:
    >>> import numpy, lockstep
    >>> with lockstep.Call.listen("127.0.0.1:0") as receiver:
    ...     with lockstep.Call.join(receiver.ticket, send=(64, 48, 30), receive=False) as sender:
    ...         replaced = sender.send(numpy.full((48, 64, 3), 128, numpy.uint8))
    ...         frame = receiver.next_frame(timeout=10)
    >>> frame.width, frame.height, frame.to_rgb().shape
    (64, 48, (48, 64, 3))

"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from lockstep._lockstep import CallError, Frame, LiveCall
from lockstep.distribution import imported

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from lockstep.controllers import ControllerFactory

    Picture = Frame | NDArray[np.uint8] | Sequence[NDArray[np.uint8]]

__all__ = [
    "Call",
    "CallError",
    "Degraded",
    "Ended",
    "Event",
    "Events",
    "Frame",
    "Fresh",
    "Interrupted",
    "Joined",
    "Message",
    "PathChanged",
    "PeerChanged",
    "Quality",
    "ReceivingQuality",
    "Resumed",
    "SendingQuality",
    "Stale",
    "StreamAnnounced",
]

Latency = Literal["low", "balanced", "quality"]
Reason = Literal["left", "peer_left"]

_SLICE = 0.1
"""Seconds that a thread of the asynchronous interface waits at once: it outlives a cancelled task by no more."""
_WORKERS = 4
"""Threads of a call's asynchronous interface: frames, events, joining and leaving may all wait."""
_MAX_DENOMINATOR = 1001
"""Denominator of the frame rates of NTSC."""

T = TypeVar("T")


@dataclass(frozen=True)
class Event:
    """An event of a call."""


@dataclass(frozen=True)
class Joined(Event):
    """The other end has joined."""


@dataclass(frozen=True)
class StreamAnnounced(Event):
    """The other end sends a stream that has a name."""

    stream: str
    """Its name."""


@dataclass(frozen=True)
class Degraded(Event):
    """A condition degrades the call that is about to begin."""

    reason: str
    """The condition, in one line."""


@dataclass(frozen=True)
class PathChanged(Event):
    """Packets take another path: the address of an end changed, or the relay replaced the direct path."""

    relayed: bool
    """Whether packets are relayed by the rendezvous."""


@dataclass(frozen=True)
class Interrupted(Event):
    """Nothing arrived from the other end for a second."""


@dataclass(frozen=True)
class Resumed(Event):
    """Packets arrive again."""


@dataclass(frozen=True)
class PeerChanged(Event):
    """The other end muted its sound, turned its camera off or records the call, or stopped."""

    muted: bool
    """Whether its sound is silenced."""
    camera_off: bool
    """Whether it captures no pictures."""
    recording: bool = False
    """Whether it records the call."""


@dataclass(frozen=True)
class SendingQuality:
    """The quality of the video that this end sends."""

    target: int
    """Target of the controller, bit/s."""
    limited_by: str | None
    """The limit that set the newest frame's size; None before the first frame."""
    round_trip: float | None
    """Smoothed round-trip time in seconds; None before the first feedback."""
    frames: int
    """Frames sent since the call began."""
    stream: str
    """The name of the stream; empty for the only one."""


@dataclass(frozen=True)
class ReceivingQuality:
    """The quality of the video that this end receives."""

    frames: int
    """Frames decoded since the call began."""
    missing: int
    """Packets that are missing of those sent before the newest that arrived."""
    jitter: float
    """Interarrival jitter of packets in seconds (RFC 3550, section 6.4.1)."""
    age: float | None
    """Age of the newest frame in seconds, from capture until now; None before the first."""
    stream: str
    """The name of the stream; empty for the only one."""


@dataclass(frozen=True)
class Quality(Event):
    """The quality of a stream in each direction, once a second for each."""

    sending: SendingQuality | None
    """None where this end sends no such stream."""
    receiving: ReceivingQuality | None
    """None where this end receives no such stream."""


@dataclass(frozen=True)
class Stale(Event):
    """The newest frame is older than ``stale_after``. A remote-controlled machine should stop."""

    age: float
    """Its age in seconds, from capture until now."""
    stream: str = ""
    """The name of its stream; empty for the only one."""


@dataclass(frozen=True)
class Fresh(Event):
    """After :class:`Stale`, a frame younger than the limit arrived."""

    stream: str = ""
    """The name of its stream; empty for the only one."""


@dataclass(frozen=True)
class Message(Event):
    """A message arrived."""

    data: bytes
    """Its bytes."""
    channel: int | None
    """Channel of a latest message; None for a reliable one."""
    delay: float
    """Seconds from sending to arrival."""


@dataclass(frozen=True)
class Ended(Event):
    """The call is over."""

    reason: Reason
    """``"left"`` if this end left, ``"peer_left"`` if the other one did."""


_PLAIN: dict[str, Callable[..., Event]] = {
    kind.__name__: kind
    for kind in (
        Event,
        Joined,
        StreamAnnounced,
        Degraded,
        PathChanged,
        Interrupted,
        Resumed,
        PeerChanged,
        Stale,
        Fresh,
        Message,
        Ended,
    )
}
"""Events whose fields come as they are, by name."""


def _event(name: str, fields: dict[str, Any]) -> Event:
    if name != "Quality":
        return _PLAIN[name](**fields)
    sending, receiving = fields["sending"], fields["receiving"]
    return Quality(
        sending=None if sending is None else SendingQuality(**sending),
        receiving=None if receiving is None else ReceivingQuality(**receiving),
    )


class Events(Iterator[Event], AsyncIterator[Event]):
    """The events of a call until it is over, for ``for`` and ``async for``.

    Raises:
        CallError: If the call fails.

    """

    def __init__(self, call: "Call") -> None:
        """The events of ``call``; see :meth:`Call.events`."""
        self._call = call

    def __iter__(self) -> Self:
        """Itself."""
        return self

    def __next__(self) -> Event:
        """The next event; waits for it."""
        event = self._call.next_event()
        if event is None:
            raise StopIteration
        return event

    def __aiter__(self) -> Self:
        """Itself."""
        return self

    async def __anext__(self) -> Event:
        """The next event; waits for it without blocking the loop. Cancelling the wait loses no event."""
        return await self._call._next(self._call._live.wait_for_event, self._call.next_event)


class Call(Iterator[Frame], AsyncIterator[Frame]):
    """One end of a live call. Make it with :meth:`join` or :meth:`listen`.

    As a context manager (``with`` or ``async with``) an end that joins waits until it has joined, and either end leaves
    the call at the block's end. Iteration (``for`` or ``async for``) gives the other end's frames until the call is
    over; of frames that wait for the application only the newest three are kept. All methods may be called from any
    thread.
    """

    def __init__(self, live: LiveCall, ticket: str, *, joins: bool) -> None:
        """Use :meth:`join` or :meth:`listen`."""
        self._live = live
        self._joins = joins
        # Waits of other calls cannot use its threads up. They end with the object.
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="lockstep call")
        self.ticket = ticket
        """The ticket of the call, for the other end."""

    @classmethod
    def join(  # noqa: PLR0913
        cls,
        ticket: str,
        *,
        send: tuple[int, int, float | Fraction] | None = None,
        receive: bool = True,
        latency: Latency = "balanced",
        max_bitrate: float | None = None,
        stale_after: float | None = None,
        reconnect: bool = False,
        streams: "Mapping[str, float] | None" = None,
        wait_limit: float | None = 10.0,
        idle_limit: float | None = 30.0,
        controller: "ControllerFactory | None" = None,
    ) -> Self:
        """Joins the giver of a ticket. Returns at once; entering the context waits until the other end has answered.

        Args:
            ticket: Text that the other end's :attr:`ticket` or ``lockstep receive`` gave.
            send: Width and height in pixels and frames a second of the frames for :meth:`send`; None sends none.
            receive: Whether this end receives frames.
            latency: Delay that the call tolerates for a better picture: ``"low"`` for tele-operation, ``"balanced"``
                for conversations, ``"quality"`` for watching.
            max_bitrate: Cap of the bit rate in bit/s; None derives it from the size and rate of the frames.
            stale_after: Age of the newest frame in seconds at which :class:`Stale` is reported; None for never.
            reconnect: Resume the call whenever it breaks or the other end leaves, until :meth:`leave`.
            streams: Names and priorities of several video streams of this end, such as ``{"front": 3, "rear": 1}``,
                the most important first. They share one budget in proportion to their priorities. Names have up to 32
                letters, digits, ``-`` and ``_``. None for one stream without a name.
            wait_limit: Seconds that the other end may take to answer; None waits forever.
            idle_limit: Seconds of silence that end the call; None waits forever.
            controller: A :class:`lockstep.Controller`, its class, or a function that makes one for each connection,
                instead of Lockstep's; requires the extra `lab`. The next method of the call raises what it raises.

        Raises:
            ValueError: If the ticket is damaged or an option is out of range.
            CallError: If no thread can be started. Later failures are raised by the method that waits for them.

        """
        options = _options(
            send, receive, latency, max_bitrate, stale_after, reconnect, streams, wait_limit, idle_limit, controller
        )
        return cls(LiveCall.join(ticket, options), ticket, joins=True)

    @classmethod
    def listen(  # noqa: PLR0913
        cls,
        address: str = "0.0.0.0:0",
        *,
        identity: str | os.PathLike[str] | None = None,
        send: tuple[int, int, float | Fraction] | None = None,
        receive: bool = True,
        latency: Latency = "balanced",
        max_bitrate: float | None = None,
        stale_after: float | None = None,
        reconnect: bool = False,
        streams: "Mapping[str, float] | None" = None,
        idle_limit: float | None = 30.0,
        controller: "ControllerFactory | None" = None,
    ) -> Self:
        """Listens for one call; :attr:`ticket` is for the other end. Waits for it as long as it takes.

        Args:
            address: IP address and UDP port to listen at; port 0 is any free one.
            identity: File of a standing key, which is made if it does not exist. The ticket stays the same, and admits
                one call after another.
            send: As for :meth:`join`.
            receive: As for :meth:`join`.
            latency: As for :meth:`join`.
            max_bitrate: As for :meth:`join`.
            stale_after: As for :meth:`join`.
            reconnect: As for :meth:`join`; requires ``identity``.
            streams: As for :meth:`join`.
            idle_limit: As for :meth:`join`.
            controller: As for :meth:`join`.

        Raises:
            ValueError: If the address cannot be read or an option is out of range.
            CallError: If the address cannot be bound, or the key can be neither read nor made.

        """
        if reconnect and identity is None:
            raise ValueError("reconnect: a listener requires a standing key; give identity='FILE'")
        options = _options(
            send, receive, latency, max_bitrate, stale_after, reconnect, streams, None, idle_limit, controller
        )
        live, ticket = LiveCall.listen(address, None if identity is None else os.fspath(identity), options)
        return cls(live, ticket, joins=False)

    def send(self, frame: "Picture", captured_at: float | None = None, *, stream: str | None = None) -> bool:
        """Sends a frame. Of frames that wait for the encoder only the newest is kept.

        The samples are copied, without the interpreter's lock. A frame of another size than announced changes the size
        of the video.

        Args:
            frame: An array of uint8: RGB of shape (height, width, 3), or I420 of shape (height * 3 // 2, width) with
                even sides. Or a tuple of the planes Y, U and V, the chroma planes of half the size, rounded up. Or a
                received :class:`Frame`.
            captured_at: Time of capture in seconds of :func:`time.monotonic`; now if None.
            stream: The name of its stream, one of ``streams``; None for the first.

        Returns:
            Whether the frame replaced one that still waited.

        Raises:
            TypeError: If the frame is no array of uint8.
            ValueError: If its shape is wrong, if ``captured_at`` is in the future, or if the call has no such stream.
            CallError: If the call is over.

        """
        age = 0.0 if captured_at is None else time.monotonic() - captured_at
        return self._live.send(frame, age, stream)

    def next_frame(self, timeout: float | None = None) -> Frame | None:
        """The next frame of the other end; waits up to ``timeout`` seconds, forever if None.

        Returns:
            The frame; None if none came in time, or the call is over.

        Raises:
            ValueError: If the call has ``receive=False``.
            CallError: If the call failed.

        """
        return self._live.next_frame(timeout)

    def next_event(self, timeout: float | None = None) -> Event | None:
        """The next event; waits up to ``timeout`` seconds, forever if None.

        Returns:
            The event; None if none came in time, or after :class:`Ended`.

        Raises:
            CallError: If the call failed.

        """
        named = self._live.next_event(timeout)
        return None if named is None else _event(*named)

    def events(self) -> Events:
        """All events until the call is over, for ``for`` and ``async for``; the last is :class:`Ended`."""
        return Events(self)

    def wait_joined(self, timeout: float | None = None) -> bool:
        """Waits up to ``timeout`` seconds until the other end has joined, forever if None. Takes no event.

        Returns:
            Whether it has joined.

        Raises:
            CallError: If the call failed.

        """
        return self._live.wait_joined(timeout)

    def send_message(self, data: bytes | bytearray | memoryview, channel: int | None = None) -> None:
        """Sends a message. Before the other end has joined, reliable messages wait and latest messages are dropped.

        Args:
            data: Its bytes: at most 65,536 for a reliable message and 1,000 for a latest one.
            channel: None sends reliably and in order. A channel, 0 to 255, sends at most once: a later message of the
                same channel replaces it.

        Raises:
            ValueError: If the message is too long or the channel is out of range.
            CallError: If too many messages wait for the path, or the call is over.

        """
        self._live.send_message(data, channel)

    def set_max_bitrate(self, max_bitrate: float | None, *, stream: str | None = None) -> None:
        """Changes the cap of the bit rate, in bit/s; None removes it.

        Args:
            max_bitrate: The cap. Streams share it in proportion to their priorities.
            stream: The name of the only stream that it applies to; None for all.

        Raises:
            ValueError: If it is out of range, or the call sends no such stream.

        """
        self._live.set_max_bitrate(max_bitrate, stream)

    def set_paused(self, stream: str, *, paused: bool = True) -> None:
        """Pauses a stream that this end sends, or resumes it. The other streams get its part of the budget.

        Raises:
            ValueError: If the call sends no such stream.

        """
        self._live.set_paused(stream, paused)

    def set_latency(self, latency: Latency) -> None:
        """Changes the latency. The controller starts again, and finds the capacity within a second or two.

        Raises:
            ValueError: If no latency has that name.

        """
        self._live.set_latency(latency)

    def set_presence(self, *, muted: bool = False, camera_off: bool = False) -> None:
        """Mutes the sound or turns the camera off, and notifies the other end. A camera off pauses the video."""
        self._live.set_presence(muted, camera_off)

    @property
    def is_over(self) -> bool:
        """Whether the call has ended or failed. Frames and events may still wait."""
        return self._live.is_over()

    def leave(self) -> Reason:
        """Ends the call, and waits until the other end knows. Later calls of it do nothing.

        Returns:
            ``"left"``, or ``"peer_left"`` if the other end left before.

        Raises:
            CallError: If the call failed, or the other end does not confirm its end.

        """
        return self._live.leave()

    def __enter__(self) -> Self:
        """Waits until this end has joined; a listener does not wait."""
        if self._joins:
            try:
                self.wait_joined()
            except BaseException:
                self._abandon()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leaves the call."""
        if kind is None:
            self.leave()
        else:
            self._abandon()

    async def __aenter__(self) -> Self:
        """As ``with``, without blocking the loop."""
        if self._joins:
            try:
                while not await self._run(self._live.wait_joined, _SLICE) and not self.is_over:
                    pass
            except BaseException:
                self._live.end()
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """As ``with``, without blocking the loop."""
        await self._run(self.__exit__, kind, error, traceback)

    def __iter__(self) -> Self:
        """Itself."""
        return self

    def __next__(self) -> Frame:
        """The next frame; waits for it."""
        frame = self.next_frame()
        if frame is None:
            raise StopIteration
        return frame

    def __aiter__(self) -> Self:
        """Itself."""
        return self

    async def __anext__(self) -> Frame:
        """The next frame; waits for it without blocking the loop. Cancelling the wait loses no frame."""
        return await self._next(self._live.wait_for_frame, self.next_frame)

    def _abandon(self) -> None:
        """Leaves the call while another error is raised, which says more than a failure of the call."""
        with suppress(CallError):
            self.leave()

    async def _next(self, wait: Callable[[float], bool], take: Callable[[float], T | None]) -> T:
        """What ``take`` gives once ``wait`` ends; the end of the iteration after the call's end."""
        while True:
            # Only the wait runs on another thread: a task that is cancelled during it has taken nothing.
            if not await self._run(wait, _SLICE):
                continue
            is_over = self.is_over
            item = take(0.0)
            if item is not None:
                return item
            if is_over:
                raise StopAsyncIteration

    async def _run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Runs a function that waits on a thread of this call."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)


def _options(  # noqa: PLR0913, PLR0917
    send: tuple[int, int, float | Fraction] | None,
    receive: bool,
    latency: str,
    max_bitrate: float | None,
    stale_after: float | None,
    reconnect: bool,
    streams: "Mapping[str, float] | None",
    wait_limit: float | None,
    idle_limit: float | None,
    controller: "ControllerFactory | None",
) -> dict[str, Any]:
    """The options of a call as the extension reads them."""
    return {
        "send": None if send is None else _sent_format(send),
        "streams": [] if streams is None else list(streams.items()),
        "receive": receive,
        "latency": latency,
        "max_bitrate": max_bitrate,
        "stale_after": stale_after,
        "reconnect": reconnect,
        "wait_limit": wait_limit,
        "idle_limit": idle_limit,
        "controller": None if controller is None else _registered(controller),
    }


def _registered(controller: "ControllerFactory") -> Any:
    """A controller in Python as the extension takes it."""
    return imported("lockstep.controllers", "`controller`", "lab").registered(controller)


def _sent_format(send: tuple[int, int, float | Fraction]) -> tuple[int, int, tuple[int, int]]:
    try:
        width, height, rate = send
        exact = Fraction(rate).limit_denominator(_MAX_DENOMINATOR)
        return int(width), int(height), (exact.numerator, exact.denominator)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"send: expected (width, height, frames a second), got {send!r}") from error
