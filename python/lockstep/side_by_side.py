"""Cells of a study side by side, in threads that Ctrl-C does not wait for."""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

Cell = TypeVar("Cell")
Measures = TypeVar("Measures")

PATIENCE_SECONDS = 3.0
"""For how long cells that run are waited for once all is interrupted: nothing else ends a call."""
LOOK_SECONDS = 0.2
"""How often who waits in the first thread looks up: Python acts on Ctrl-C between two waits only.

Polars has the signal's handler, and with it waits go on after a signal as though there had been none.
"""


def side_by_side(
    cells: Sequence[Cell],
    measure: Callable[[Cell], Measures],
    workers: int,
    *,
    keep: Callable[[Cell, Measures], None],
    end: Callable[[], None],
) -> None:
    """Runs ``measure`` on each of ``cells``, as many at once as there are ``workers``; a single one is this thread.

    ``keep`` is given what comes of each, in this thread. Once one has failed, none begins, those that run are kept,
    and the failure is raised. Once this is interrupted, none begins, ``end`` is to end what can be ended, and what is
    over within :data:`PATIENCE_SECONDS` is kept.
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
            except BaseException as error:  # raised where cells are waited for
                over.put(error)
        over.put(None)

    # Daemons: the interpreter does not wait for them at its end.
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
    """Waits for all of them, but not for longer than :data:`PATIENCE_SECONDS`."""
    until = time.monotonic() + PATIENCE_SECONDS
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
