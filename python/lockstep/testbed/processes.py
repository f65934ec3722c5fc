"""Processes that are ended as a person would end them, and made to where that takes too long; and being interrupted."""

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
"""How long a process may take to end when it is told to."""

_STOPPED = threading.Event()


def end(process: "subprocess.Popen[Any] | None", told_by: signal.Signals | None = None) -> None:
    """Ends a process by closing its standard input, and by a signal where it does not heed that; may be called again.

    Its pipes are closed: what is to be read from them is read before.
    """
    if process is None:
        return
    if process.stdin is not None and not process.stdin.closed:
        # What was not written any more has nobody to read it.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    if process.poll() is None and told_by is not None:
        process.send_signal(told_by)
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def group_members(leader: int) -> list[int]:
    """The processes of a group that still run: those that have ended and wait to be asked how do not count."""
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
    """Ends whatever is left of a group of processes by force, and waits until it is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
    deadline = time.monotonic() + END_SECONDS
    while group_members(leader) and time.monotonic() < deadline:
        time.sleep(0.01)


def pause(seconds: float) -> None:
    """Waits so long.

    Raises:
        KeyboardInterrupt: As soon as the run is to end, see `interruptible`.

    """
    if _STOPPED.wait(seconds):
        raise KeyboardInterrupt


@contextlib.contextmanager
def interruptible() -> Iterator[list[signal.Signals]]:
    """While this holds, Ctrl-C and being told to end have every `pause` end with `KeyboardInterrupt`.

    A run is measured by a thread of its own, which alone can end what it has started. Gives the signals that came. A
    second one ends this process at once: its programs then notice that nobody holds their standard input.
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
    """What a program under test is started with: Ctrl-C on the terminal is for the driver, which ends the programs."""
    return {"start_new_session": True} if os.name == "posix" else {}
