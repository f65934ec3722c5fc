"""Runs cells of a study in parallel threads that Ctrl-C can interrupt."""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

Cell = TypeVar("Cell")
Measures = TypeVar("Measures")

PATIENCE_SECONDS = 3.0
"""Seconds to wait for running cells after an interruption; a running call cannot be stopped."""
LOOK_SECONDS = 0.2
"""Interval at which the main thread wakes up: Python handles Ctrl-C only between two waits.

Polars installs its own signal handler; with it, a signal does not end a wait.
"""


def side_by_side(
    cells: Sequence[Cell],
    measure: Callable[[Cell], Measures],
    workers: int,
    *,
    keep: Callable[[Cell, Measures], None],
    end: Callable[[], None],
) -> None:
    """Runs ``measure`` on each of ``cells`` in ``workers`` threads; a single worker is the calling thread.

    The calling thread passes each result to ``keep``. After a failure no cell starts, results of running cells are
    kept, and the failure is raised. After an interruption no cell starts, and ``end`` must end what it can. Results
    within :data:`PATIENCE_SECONDS` are kept.
    """
    if workers <= 1:
        for cell in cells:
            keep(cell, measure(cell))
        return
    waiting = deque(cells)
    over: queue.SimpleQueue[tuple[Cell, Measures] | BaseException | None] = queue.SimpleQueue()
    stopping = threading.Event()

    def work() -> None:
        while not stopping.is_set():
            try:
                cell = waiting.popleft()
            except IndexError:
                break
            try:
                over.put((cell, measure(cell)))
            except BaseException as error:  # the main thread raises it
                over.put(error)
        over.put(None)

    # Daemon threads do not delay the interpreter's exit.
    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(workers, len(cells)))]
    for thread in threads:
        thread.start()
    failure: BaseException | None = None
    running = len(threads)
    try:
        while running:
            try:
                ended = over.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                continue
            if ended is None:
                running -= 1
            elif isinstance(ended, BaseException):
                stopping.set()
                failure = failure or ended
            else:
                keep(*ended)
    except BaseException:
        stopping.set()
        end()
        _join(threads)
        while not over.empty():
            ended = over.get()
            if isinstance(ended, tuple):
                keep(*ended)
        raise
    if failure is not None:
        raise failure


def _join(threads: Sequence[threading.Thread]) -> None:
    """Waits for all threads, at most :data:`PATIENCE_SECONDS`."""
    until = time.monotonic() + PATIENCE_SECONDS
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
