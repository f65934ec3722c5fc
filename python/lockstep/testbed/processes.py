"""Processes that are ended as a person would end them, and made to where that takes too long."""

import signal
import subprocess
from typing import Any

END_SECONDS = 10.0
"""How long a process may take to end when it is told to."""


def end(process: "subprocess.Popen[Any] | None", told_by: signal.Signals | None = None) -> None:
    """Ends a process by closing its standard input, and by a signal where it does not heed that; may be called again.

    Its pipes are closed: what is to be read from them is read before.
    """
    if process is None:
        return
    if process.stdin is not None and not process.stdin.closed:
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
