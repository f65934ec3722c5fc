"""Ends processes gently, or by force after a time limit, and handles interruptions."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

END_SECONDS = 10.0
"""Time limit for a process to end after the request."""

_STOPPED = threading.Event()


def end(process: "subprocess.Popen[Any] | None", request: signal.Signals | None = None) -> None:
    """Ends a process by closing its standard input and by an optional signal; may be called repeatedly.

    This also closes its pipes, so read them before.
    """
    if process is None:
        return
    if process.stdin is not None and not process.stdin.closed:
        # Unwritten input has no reader any more.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    if process.poll() is None and request is not None:
        process.send_signal(request)
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def group_members(leader: int) -> list[int]:
    """The running processes of a group, without zombies."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, _, group = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(group) == leader and state not in ("Z", "X"):
            found.append(int(entry.name))
    return found


def end_group(leader: int) -> None:
    """Kills the remaining processes of a group and waits until they have ended."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
    deadline = time.monotonic() + END_SECONDS
    while group_members(leader) and time.monotonic() < deadline:
        time.sleep(0.01)


def pause(seconds: float) -> None:
    """Waits for this time.

    Raises:
        KeyboardInterrupt: As soon as the run is interrupted, see `interruptible`.

    """
    if _STOPPED.wait(seconds):
        raise KeyboardInterrupt


@contextlib.contextmanager
def interruptible() -> Iterator[list[signal.Signals]]:
    """Inside this context, Ctrl-C and termination signals make every `pause` raise `KeyboardInterrupt`.

    Only the thread of a run can end the programs that it has started. Yields the received signals. A second signal ends
    this process at once; its programs then detect that their standard input is closed.
    """
    came: list[signal.Signals] = []

    def stop(number: int, _frame: object) -> None:
        came.append(signal.Signals(number))
        _STOPPED.set()
        signal.signal(number, signal.SIG_DFL)

    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield came
    finally:
        _STOPPED.clear()
        for number, handler in before.items():
            signal.signal(number, handler)


def apart() -> dict[str, Any]:
    """Options for starting a program under test: Ctrl-C goes to the driver only, which ends the programs."""
    return {"start_new_session": True} if os.name == "posix" else {}
