import asyncio
import doctest
import gc
import importlib.util
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import lockstep
from lockstep.command import lockstep_command

pytest.importorskip("lockstep._lockstep", reason="calls require the extension")

LIMIT = 60.0
"""Time limit of a test, in case it hangs, seconds."""
SIZE = (64, 48)
EXAMPLES = Path(__file__).parents[1] / "examples"


def grey(value: int = 128, size: tuple[int, int] = SIZE) -> np.ndarray[Any, np.dtype[np.uint8]]:
    width, height = size
    return np.full((height * 3 // 2, width), value, np.uint8)


@contextmanager
def connected(**options: Any) -> Iterator[tuple[lockstep.Call, lockstep.Call]]:
    """A receiver and a sender over loopback."""
    with (
        lockstep.Call.listen("127.0.0.1:0", **options) as receiver,
        lockstep.Call.join(receiver.ticket, send=(*SIZE, 30), receive=False) as sender,
    ):
        yield receiver, sender


def frames_of(receiver: lockstep.Call, sender: lockstep.Call, picture: Any, **options: Any) -> Iterator[lockstep.Frame]:
    """Frames that arrive while ``picture`` is sent."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        sender.send(picture, **options)
        if frame := receiver.next_frame(timeout=1 / 30):
            yield frame
    raise AssertionError("no frame arrived")


def free_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_example_of_the_docstring_runs() -> None:
    import lockstep.call  # noqa: PLC0415

    assert doctest.testmod(lockstep.call, raise_on_error=True).attempted > 2


def test_loopback_example_receives_frames() -> None:
    assert example("loopback_call").main() > 0


def test_teleoperation_example_stops_when_video_is_stale() -> None:
    commands = asyncio.run(example("teleoperation").main())
    *others, last = commands
    assert last == b"stop"
    assert all(command.startswith(b"steer") for command in others)


def test_frames_arrive_as_sent_in_every_form() -> None:
    rgb = np.full((48, 64, 3), (200, 100, 50), np.uint8)
    planes = (
        np.full((48, 64), 124, np.uint8),
        np.full((24, 32), 90, np.uint8),
        np.full((24, 32), 170, np.uint8),
    )
    i420 = np.concatenate([plane.ravel() for plane in planes]).reshape(72, 64)
    wide = np.zeros((48, 100, 3), np.uint8)
    wide[:, 10:74] = rgb
    padded = tuple(np.pad(plane, ((0, 0), (0, 7))) for plane in planes)
    views = tuple(plane[:, :-7] for plane in padded)
    bgr = np.ascontiguousarray(rgb[..., ::-1])
    with connected() as (receiver, sender):
        for picture in (rgb, bgr[..., ::-1], wide[:, 10:74], i420, planes, views, list(planes)):
            for frame in frames_of(receiver, sender, picture):
                if (abs(frame.to_rgb().astype(int) - rgb) <= 12).all():
                    break
            # This form is received before the next one only if each is sent separately.
            next(frame for frame in frames_of(receiver, sender, grey(16)) if frame.planes[0].mean() < 30)


def test_frame_has_its_size_age_and_capture_time() -> None:
    with connected() as (receiver, sender):
        frames: list[lockstep.Frame] = []
        # The clocks can be compared after the first round trip.
        while not frames or frames[-1].age is None:
            frames.append(next(frames_of(receiver, sender, grey())))
    assert 0 <= frames[-1].age < LIMIT
    times = [frame.captured_at for frame in frames]
    assert times == sorted(times)
    assert (frames[0].width, frames[0].height) == SIZE
    assert repr(frames[0]).startswith("Frame(width=64, height=48, captured_at=")


def test_capture_time_adds_to_the_age() -> None:
    with connected() as (receiver, sender):
        next(frames_of(receiver, sender, grey()))
        end = time.monotonic() + LIMIT
        ages: list[float] = []
        while time.monotonic() < end and not any(age > 0.5 for age in ages):
            # The fastest packets give the clock offset, and recently captured frames are fast.
            delay = 0.0 if len(ages) < 5 else 0.7
            sender.send(grey(), captured_at=time.monotonic() - delay)
            frame = receiver.next_frame(timeout=1 / 30)
            if frame is not None and frame.age is not None:
                ages.append(frame.age)
        assert ages[-1] > 0.5


def test_planes_are_read_only_views_that_keep_the_frame() -> None:
    with connected() as (receiver, sender):
        frame = next(frames_of(receiver, sender, grey(90)))
    luma, blue, red = frame.planes
    assert (luma.shape, blue.shape, red.shape) == ((48, 64), (24, 32), (24, 32))
    assert luma.base == frame
    assert not luma.flags.writeable
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        luma.flags.writeable = True
    with pytest.raises(ValueError, match="read-only"):
        luma[0, 0] = 1
    assert np.shares_memory(luma, frame.planes[0])
    kept = weakref.ref(frame)
    del frame, blue, red
    gc.collect()
    assert kept() is not None
    assert abs(int(luma.mean()) - 90) <= 3
    del luma
    gc.collect()
    assert kept() is None


def test_frames_are_freed_when_they_are_dropped() -> None:
    alive: list[weakref.ref[lockstep.Frame]] = []
    with connected() as (receiver, sender):
        for frame, _ in zip(frames_of(receiver, sender, grey()), range(60), strict=False):
            alive.append(weakref.ref(frame))
            frame.planes[0].sum()
        del frame
        gc.collect()
        assert len(alive) == 60
        assert not any(reference() for reference in alive)
    calls = [weakref.ref(receiver), weakref.ref(sender)]
    del receiver, sender
    gc.collect()
    assert not any(reference() for reference in calls)


def test_received_frame_can_be_sent_on() -> None:
    with connected() as (receiver, sender):
        frame = next(frames_of(receiver, sender, grey(200)))
        onward = next(frame for frame in frames_of(receiver, sender, frame) if frame.captured_at)
    assert abs(int(onward.planes[0].mean()) - 200) <= 4


@pytest.mark.parametrize(
    ("picture", "error", "message"),
    [
        (grey().astype(np.float32), TypeError, r"expected uint8 I420 .* got float32 of shape \(72, 64\)"),
        ("text", TypeError, "got an object of type str"),
        (None, TypeError, "got an object of type NoneType"),
        (grey()[:71], ValueError, r"got uint8 of shape \(71, 64\)"),
        (grey()[:, :63], ValueError, r"got uint8 of shape \(72, 63\)"),
        (np.zeros((48, 64, 4), np.uint8), ValueError, r"got uint8 of shape \(48, 64, 4\)"),
        (np.zeros(9, np.uint8), ValueError, r"got uint8 of shape \(9,\)"),
        (np.zeros((0, 0), np.uint8), ValueError, "picture size 0x0 is outside 1x1 to 16383x16383"),
        (np.zeros((1, 16_384, 3), np.uint8), ValueError, "picture size 16384x1 is outside"),
        ((grey(), grey()), ValueError, "expected the planes Y, U and V, got 2"),
        ((grey(), grey(), grey()), ValueError, r"plane U: expected uint8 of shape \(36, 32\), got uint8 of shape \(72"),
        ((grey(), grey()[:36, :32], "V"), TypeError, r"plane V: expected uint8 of shape \(36, 32\), got an object"),
        ((grey().ravel(), grey(), grey()), ValueError, r"plane Y: expected uint8 of shape \(height, width\)"),
    ],
)
def test_wrong_frames_are_refused_with_their_shape(picture: Any, error: type[Exception], message: str) -> None:
    call = lockstep.Call.listen("127.0.0.1:0", send=(*SIZE, 30), receive=False)
    with call, pytest.raises(error, match=message) as raised:
        call.send(picture)
    assert "\n" not in str(raised.value)


def test_capture_time_of_another_clock_is_refused() -> None:
    with connected() as (_, sender):
        with pytest.raises(ValueError, match=r"captured_at: expected seconds of time\.monotonic"):
            sender.send(grey(), captured_at=time.monotonic() + 1e6)
        with pytest.raises(ValueError, match="captured_at"):
            sender.send(grey(), captured_at=float("nan"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"receive": False}, "neither sends nor receives"),
        ({"latency": "fast"}, "latency: unknown latency `fast`"),
        ({"send": (64, 48)}, "send: expected"),
        ({"send": (64, 48, 0)}, "send: frame rate 0/1"),
        ({"send": (64, 48, float("nan"))}, "send: expected"),
        ({"send": (0, 48, 30)}, "send: size 0x48 is outside"),
        ({"max_bitrate": -1.0}, "max_bitrate: expected 1 to 1e12 bit/s"),
        ({"stale_after": float("nan")}, "stale_after: expected 0 to"),
        ({"idle_limit": -1.0}, "idle_limit: expected 0 to"),
        ({"reconnect": True}, "reconnect: a listener requires a standing key"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lockstep.Call.listen("127.0.0.1:0", **options)


def test_frame_rates_may_be_fractions() -> None:
    for rate in (30, 29.97, Fraction(30_000, 1_001)):
        with lockstep.Call.listen("127.0.0.1:0", send=(*SIZE, rate), receive=False):
            pass


def test_address_and_ticket_are_checked() -> None:
    with pytest.raises(ValueError, match="address: expected an IP address and port"):
        lockstep.Call.listen("localhost")
    with pytest.raises(ValueError, match="ticket: a ticket begins with"):
        lockstep.Call.join("abc")


def test_address_in_use_is_a_call_error() -> None:
    address = free_address()
    with lockstep.Call.listen(address), pytest.raises(lockstep.CallError, match=f"cannot bind UDP {address}"):
        lockstep.Call.listen(address)


def test_wrong_ticket_fails_with_the_reason() -> None:
    address = free_address()
    with lockstep.Call.listen(address) as first:
        ticket = first.ticket
    with (
        lockstep.Call.listen(address),
        pytest.raises(lockstep.CallError, match="another key than the ticket's"),
        lockstep.Call.join(ticket, send=(*SIZE, 30), receive=False, wait_limit=5.0),
    ):
        pass


def test_call_of_the_other_kind_fails_with_the_reason() -> None:
    with lockstep.Call.listen("127.0.0.1:0") as receiver:
        call = lockstep.Call.join(receiver.ticket)
        with pytest.raises(lockstep.CallError, match="the other kind of call"):
            list(call)
        assert call.is_over
        for again in (call.next_frame, lambda: list(call.events()), call.next_event, call.wait_joined, call.leave):
            with pytest.raises(lockstep.CallError, match="the other kind of call"):
                again()
        with pytest.raises(lockstep.CallError, match=r"cannot send message: the call is over: .*kind of call"):
            call.send_message(b"")


def test_unanswered_join_fails_within_its_limit() -> None:
    with lockstep.Call.listen("127.0.0.1:0") as call:
        ticket = call.ticket
    with pytest.raises(lockstep.CallError, match="nobody answered"), lockstep.Call.join(ticket, wait_limit=0.2):
        pass


def test_reliable_messages_arrive_in_order() -> None:
    with connected() as (receiver, sender):
        for number in range(200):
            sender.send_message(b"%d" % number)
        messages: list[lockstep.Message] = []
        while len(messages) < 200:
            event = receiver.next_event(LIMIT)
            assert event is not None
            if isinstance(event, lockstep.Message):
                messages.append(event)
        assert [int(message.data) for message in messages] == list(range(200))
        assert all(message.channel is None and message.delay >= 0 for message in messages)


def test_latest_message_has_its_channel() -> None:
    with connected() as (receiver, sender):
        assert receiver.wait_joined(LIMIT)
        sender.send_message(bytearray(b"left"), channel=7)
        message = next(event for event in receiver.events() if isinstance(event, lockstep.Message))
        assert (message.data, message.channel) == (b"left", 7)


def test_wrong_messages_are_refused() -> None:
    with connected() as (_, sender):
        for channel in (-1, 256):
            with pytest.raises(ValueError, match=f"channel: expected 0 to 255 or None, got {channel}"):
                sender.send_message(b"", channel)
        with pytest.raises(ValueError, match="its 1001 bytes exceed the limit of 1000"):
            sender.send_message(bytes(1_001), 0)
        with pytest.raises(TypeError, match="bytes-like"):
            sender.send_message("text")  # type: ignore[arg-type]


def test_events_report_the_call_until_its_end() -> None:
    with connected(stale_after=0.2) as (receiver, sender):
        next(frames_of(receiver, sender, grey()))
        kinds: list[type[lockstep.Event]] = []
        for event in receiver.events():
            kinds.append(type(event))
            if isinstance(event, lockstep.Stale):
                assert event.age >= 0.2
                if lockstep.PeerChanged not in kinds:
                    next(frames_of(receiver, sender, grey()))
            if isinstance(event, lockstep.Fresh):
                sender.set_presence(camera_off=True)
            if isinstance(event, lockstep.PeerChanged):
                assert event == lockstep.PeerChanged(muted=False, camera_off=True)
            if isinstance(event, lockstep.Quality) and lockstep.PeerChanged in kinds:
                assert event.sending is None
                assert event.receiving is not None
                assert event.receiving.frames > 0
                sender.leave()
        assert event == lockstep.Ended("peer_left")
        assert {lockstep.Joined, lockstep.Stale, lockstep.Fresh, lockstep.PeerChanged} <= set(kinds)
        assert receiver.next_event() is None
        assert list(receiver) is not None
        with pytest.raises(lockstep.CallError, match="cannot send frame: the call is over: this end left"):
            sender.send(grey())


def test_iteration_ends_when_the_peer_leaves() -> None:
    with connected() as (receiver, sender):
        next(frames_of(receiver, sender, grey()))
        threading.Timer(0.2, sender.leave).start()
        assert all(isinstance(frame, lockstep.Frame) for frame in receiver)
        assert receiver.is_over
        assert receiver.leave() == "peer_left"
        assert sender.leave() == "left"


class Steady(lockstep.Controller):
    """Sends at a fixed rate, bit/s."""

    decided = 0

    def allowance(self, path: Any, sending: Any) -> float:  # noqa: ARG002
        type(self).decided += 1
        return 300_000


class Broken(lockstep.Controller):
    """Fails at its first decision."""

    def allowance(self, path: Any, sending: Any) -> float:  # noqa: ARG002
        raise ZeroDivisionError("no rate")


def test_controller_in_python_controls_a_live_call() -> None:
    with (
        lockstep.Call.listen("127.0.0.1:0") as receiver,
        lockstep.Call.join(receiver.ticket, send=(*SIZE, 30), receive=False, controller=Steady) as sender,
    ):
        for event in zip(frames_of(receiver, sender, grey()), range(40), strict=False):
            assert event
        quality = next(event.sending for event in sender.events() if isinstance(event, lockstep.Quality))
        assert quality is not None
        assert quality.target == 300_000
    assert Steady.decided > 0


def test_error_of_a_controller_is_raised_by_the_call() -> None:
    with lockstep.Call.listen("127.0.0.1:0") as receiver:
        call = lockstep.Call.join(receiver.ticket, send=(*SIZE, 30), receive=False, controller=Broken)
        with pytest.raises(ZeroDivisionError, match="no rate"):
            list(frames_of(receiver, call, grey()))


def test_options_can_be_changed_during_the_call() -> None:
    with connected() as (receiver, sender):
        sender.set_max_bitrate(200_000)
        sender.set_latency("low")
        with pytest.raises(ValueError, match="latency: unknown latency `none`"):
            sender.set_latency("none")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="max_bitrate: expected"):
            sender.set_max_bitrate(float("inf"))
        sender.set_max_bitrate(None)
        next(frames_of(receiver, sender, grey()))
        with pytest.raises(ValueError, match="receive=False"):
            sender.next_frame(0)
        with pytest.raises(ValueError, match="made without send="):
            receiver.send(grey())
        with pytest.raises(ValueError, match="timeout: expected"):
            receiver.next_frame(-1)


def test_standing_identity_admits_one_call_after_another(tmp_path: Path) -> None:
    key = tmp_path / "key"
    with lockstep.Call.listen("127.0.0.1:0", identity=key, reconnect=True) as receiver:
        for _ in range(2):
            with lockstep.Call.join(receiver.ticket, send=(*SIZE, 30), receive=False) as sender:
                next(frames_of(receiver, sender, grey()))
    assert key.stat().st_mode & 0o077 == 0


def test_waits_let_other_threads_run() -> None:
    with lockstep.Call.listen("127.0.0.1:0") as call:
        waiting = threading.Thread(target=call.next_frame, args=(LIMIT,))
        waiting.start()
        assert call.next_event(0.2) is None
        assert call.leave() == "left"
        waiting.join(LIMIT)
        assert not waiting.is_alive()


def test_control_c_interrupts_every_wait() -> None:
    program = (
        "import lockstep, os, signal, threading\n"
        "call = lockstep.Call.listen('127.0.0.1:0')\n"
        "for wait in (call.next_frame, call.next_event, call.wait_joined):\n"
        "    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "    try:\n"
        "        wait()\n"
        "    except KeyboardInterrupt:\n"
        "        print(wait.__name__)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)  # noqa: S603
    assert ran.stdout.split() == ["next_frame", "next_event", "wait_joined"]


def test_async_iteration_gives_frames_and_events() -> None:
    async def run() -> tuple[int, list[lockstep.Event]]:
        async with (
            lockstep.Call.listen("127.0.0.1:0") as receiver,
            lockstep.Call.join(receiver.ticket, send=(*SIZE, 30), receive=False) as sender,
        ):

            async def send() -> None:
                while True:
                    sender.send(grey())
                    await asyncio.sleep(1 / 30)

            sending = asyncio.create_task(send())
            received = 0
            async for frame in receiver:
                received += frame.width == 64
                if received == 10:
                    break
            sending.cancel()
            await asyncio.to_thread(sender.leave)
            return received, [event async for event in receiver.events()]

    received, events = asyncio.run(asyncio.wait_for(run(), LIMIT))
    assert received == 10
    assert events[0] == lockstep.Joined()
    assert events[-1] == lockstep.Ended("peer_left")


def test_cancelled_async_wait_loses_no_event() -> None:
    async def run() -> list[bytes]:
        async with (
            lockstep.Call.listen("127.0.0.1:0") as receiver,
            lockstep.Call.join(receiver.ticket, send=(*SIZE, 30), receive=False) as sender,
        ):
            got: list[bytes] = []
            for number in range(20):
                waiting = asyncio.ensure_future(anext(receiver.events()))
                await asyncio.sleep(0.01)
                sender.send_message(b"%d" % number)
                waiting.cancel()
                result = (await asyncio.gather(waiting, return_exceptions=True))[0]
                if isinstance(result, lockstep.Message):
                    got.append(result.data)
            while len(got) < 20:
                event = await anext(receiver.events())
                if isinstance(event, lockstep.Message):
                    got.append(event.data)
            return got

    assert asyncio.run(asyncio.wait_for(run(), LIMIT)) == [b"%d" % number for number in range(20)]


def test_cancelled_async_join_ends_the_call() -> None:
    async def run() -> lockstep.Call:
        call = lockstep.Call.join(ticket, wait_limit=None)
        entering = asyncio.ensure_future(call.__aenter__())
        await asyncio.sleep(0.05)
        entering.cancel()
        await asyncio.gather(entering, return_exceptions=True)
        return call

    with lockstep.Call.listen("127.0.0.1:0") as call:
        ticket = call.ticket
    call = asyncio.run(asyncio.wait_for(run(), LIMIT))
    assert call.next_event(LIMIT) in (None, lockstep.Ended("left"))
    assert call.is_over


@pytest.fixture
def command() -> str:
    try:
        return lockstep_command()
    except ValueError as error:
        pytest.skip(str(error))


def test_command_sends_to_a_python_end(command: str) -> None:
    with lockstep.Call.listen("127.0.0.1:0") as call:
        words = [command, "send", call.ticket, "--source", "generated:64x48@30", "--seconds", "2"]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as sending:  # noqa: S603
            assert sending.wait(LIMIT) == 0
        assert {(frame.width, frame.height) for frame in call} == {SIZE}
        assert call.leave() == "peer_left"


def test_python_end_sends_to_the_command(command: str, tmp_path: Path) -> None:
    sink = tmp_path / "received.y4m"
    words = [command, "receive", "--listen", "127.0.0.1:0", "--sink", str(sink)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as receiving:  # noqa: S603
        assert receiving.stdout is not None
        ticket = next(word for line in receiving.stdout for word in line.split() if word.startswith("LOCKSTEP-"))
        with lockstep.Call.join(ticket, send=(*SIZE, 30), receive=False) as call:
            end = time.monotonic() + LIMIT
            while not (sink.exists() and sink.read_bytes().count(b"FRAME") > 10):
                assert time.monotonic() < end, "no frames are recorded"
                call.send(grey())
                time.sleep(1 / 30)
        assert receiving.wait(LIMIT) == 0


def test_stream_without_frames_is_stale_alone() -> None:
    with (
        lockstep.Call.listen("127.0.0.1:0", stale_after=1.0) as receiver,
        lockstep.Call.join(receiver.ticket, send=(*SIZE, 30), receive=False, streams={"front": 3, "rear": 1}) as sender,
    ):
        seen: set[str] = set()
        stale: set[str] = set()
        end = time.monotonic() + LIMIT
        while not (seen == {"front", "rear"} and "rear" in stale) and time.monotonic() < end:
            sender.send(grey(), stream="front")
            if seen != {"front", "rear"}:
                sender.send(grey(90), stream="rear")
            if frame := receiver.next_frame(timeout=1 / 30):
                seen.add(frame.stream)
            while event := receiver.next_event(timeout=0.0):
                if isinstance(event, lockstep.Stale):
                    stale.add(event.stream)
        assert seen == {"front", "rear"}
        assert "rear" in stale
        while receiver.next_frame(timeout=0.0):
            pass
        assert next(frame.stream for frame in frames_of(receiver, sender, grey(), stream="front")) == "front"


def test_streams_that_cannot_be_sent_are_refused() -> None:
    ticket = lockstep.Call.listen("127.0.0.1:0").ticket
    send = (*SIZE, 30)
    with pytest.raises(ValueError, match="priority of front"):
        lockstep.Call.join(ticket, send=send, streams={"front": 0, "rear": 1})
    with pytest.raises(ValueError, match="a/b"):
        lockstep.Call.join(ticket, send=send, streams={"a/b": 1})
    with pytest.raises(ValueError, match="streams: the call sends none"):
        lockstep.Call.join(ticket, streams={"front": 1})
    call = lockstep.Call.join(ticket, send=send, streams={"front": 1})
    with pytest.raises(ValueError, match='no stream named "rear"'):
        call.send(grey(), stream="rear")
