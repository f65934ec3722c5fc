"""Process that runs one AlphaRTC estimator. It uses only Python's standard library.

Start it in the estimator's folder: `python3 -B -c SOURCE ESTIMATOR SEED`. It reads lines of JSON from standard input,
one for each call of `get_estimated_bandwidth`:

    {"now": nanoseconds, "packets": [[arrival in nanoseconds, send_time_ms, arrival_time_ms, sequence_number,
                                      header_length, payload_size], ...]}

It writes `{}` to the original standard output once the estimator is loaded, then one line for each line read:
`{"estimate": bits per second}`, or `{"error": "what is wrong"}`, which is the last line. Output of the estimator goes
to standard error.

The estimator runs in virtual time. All clocks that it can read in Python show the time of the call. Random numbers
are seeded, so that the same call gives the same estimates.

The process ends at the end of standard input. If it leads a process group, it ends the whole group.

Estimators may require an older Python than this package, so this file supports Python 3.9.
"""

from __future__ import annotations

import datetime as datetime_module
import importlib
import importlib.util
import json
import math
import os
import random
import select
import signal
import sys
import time
import traceback
from _thread import start_new_thread
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

# These modules wait in real time. They keep the real clock because they are imported before it is replaced.
for _module in ("queue", "selectors", "socket", "subprocess", "threading"):
    importlib.import_module(_module)

EPOCH_SECONDS = 1_609_459_200
"""Wall-clock time at the start of a call: 2021-01-01 UTC, an arbitrary date in the past."""

PAYLOAD_TYPE = 126
"""Dynamic payload type (RFC 3551, section 3) of video in AlphaRTC's examples."""
SYNCHRONIZATION_SOURCE = 1

REAL_DATETIME = datetime_module.datetime
REAL_DATE = datetime_module.date


class UnusableError(Exception):
    """The file has no usable estimator, or the estimator returned an invalid estimate."""


class Clock:
    """The call's time."""

    def __init__(self) -> None:
        """A clock at the call's start."""
        self.nanoseconds = 0


CLOCK = Clock()


class _AnyDatetime(type):
    """Makes every real `datetime` an instance of the virtual class as well."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, REAL_DATETIME)


class _AnyDate(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, REAL_DATE)


class VirtualDatetime(REAL_DATETIME, metaclass=_AnyDatetime):
    """`datetime.datetime` in virtual time."""

    @classmethod
    def now(cls, tz: datetime_module.tzinfo | None = None) -> VirtualDatetime:
        """The time of the call."""
        return cls.fromtimestamp(EPOCH_SECONDS + CLOCK.nanoseconds / 1e9, tz)

    @classmethod
    def utcnow(cls) -> VirtualDatetime:
        """The time of the call, without a time zone."""
        return cls.now(datetime_module.timezone.utc).replace(tzinfo=None)  # noqa: UP017

    @classmethod
    def today(cls) -> VirtualDatetime:
        """The time of the call."""
        return cls.now()


class VirtualDate(REAL_DATE, metaclass=_AnyDate):
    """`datetime.date` in virtual time."""

    @classmethod
    def today(cls) -> VirtualDate:
        """The day of the call."""
        return cls.fromtimestamp(EPOCH_SECONDS + CLOCK.nanoseconds / 1e9)


def virtual_clocks() -> None:
    """Replaces the real clocks of Python by virtual ones."""
    # A monotonic clock that reads zero could look uninitialised, so these clocks start above zero.
    since_start = 1_000_000_000

    def wall_nanoseconds() -> int:
        return EPOCH_SECONDS * 1_000_000_000 + CLOCK.nanoseconds

    def steady_nanoseconds() -> int:
        return since_start + CLOCK.nanoseconds

    replacements: dict[str, Any] = {
        "time": lambda: wall_nanoseconds() / 1e9,
        "time_ns": wall_nanoseconds,
        "sleep": lambda _seconds: None,
    }
    for name in ("monotonic", "perf_counter", "process_time", "thread_time"):
        replacements[name] = lambda: steady_nanoseconds() / 1e9
        replacements[f"{name}_ns"] = steady_nanoseconds
    # These functions use the present time where the argument is missing.
    for name, position in (("gmtime", 0), ("localtime", 0), ("ctime", 0), ("asctime", 0), ("strftime", 1)):
        real = getattr(time, name)

        def current_time(*given: Any, real: Any = real, name: str = name, position: int = position) -> Any:
            if len(given) > position and given[position] is not None:
                return real(*given)
            seconds = wall_nanoseconds() / 1e9
            present = REAL_GMTIME(seconds) if name in ("asctime", "strftime") else seconds
            return real(*given[:position], present)

        replacements[name] = current_time
    for name, replacement in replacements.items():
        setattr(time, name, replacement)
    modules: Any = datetime_module
    modules.datetime = VirtualDatetime
    modules.date = VirtualDate


REAL_GMTIME = time.gmtime


def seeded_draws(seed: int) -> None:
    """Derives the operating system's random bytes from `seed`; generators without a seed are seeded from them."""
    entropy = random.Random(seed)  # noqa: S311
    sources: tuple[tuple[Any, str], ...] = ((os, "urandom"), (random, "_urandom"))
    for module, name in sources:
        setattr(module, name, entropy.randbytes)
    random.seed(seed)


def seed_libraries(seed: int) -> None:
    """Seeds the generators of the libraries that the estimator has loaded."""
    random.seed(seed)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)


def load(path: Path) -> ModuleType:
    """The estimator's module, imported under its own name."""
    sys.path[:] = [str(path.parent), *(entry for entry in sys.path if entry not in ("", str(path.parent)))]
    sys.argv = [str(path)]
    specification = importlib.util.spec_from_file_location(path.stem, path)
    if specification is None or specification.loader is None:
        message = f"{path.name} is not a Python file"
        raise ImportError(message)
    module = importlib.util.module_from_spec(specification)
    sys.modules[path.stem] = module
    specification.loader.exec_module(module)
    return module


def report(estimator: Any, packets: list[tuple[int, int, int, int, int, int]], clock: Clock) -> None:
    """Reports `packets` to `estimator`, each at its arrival time; the module's docstring lists their fields."""
    for arrival, sent_ms, arrived_ms, sequence, header, payload in packets:
        clock.nanoseconds = arrival
        estimator.report_states(
            {
                "send_time_ms": sent_ms,
                "arrival_time_ms": arrived_ms,
                "payload_type": PAYLOAD_TYPE,
                "sequence_number": sequence,
                "ssrc": SYNCHRONIZATION_SOURCE,
                "padding_length": 0,
                "header_length": header,
                "payload_size": payload,
            }
        )


def bits_per_second(value: Any) -> float:
    """The value that the estimator returned, as a number.

    Scalars of NumPy and PyTorch count as numbers. Of a pair, as BoB's heuristic returns it, the first item counts.

    Raises:
        UnusableError: If it is not a number, not finite, or negative.

    """
    number = value[0] if isinstance(value, (tuple, list)) and value else value
    if not isinstance(number, (int, float)) and hasattr(number, "item"):
        number = number.item()
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        message = (
            f"get_estimated_bandwidth returned {shortened(value)}; expected a number of bits per second, at least 0"
        )
        raise UnusableError(message)
    try:
        rate = float(number)
    except OverflowError:
        # Python refuses to print very long integers.
        message = "get_estimated_bandwidth returned a whole number too large for a bit rate"
        raise UnusableError(message) from None
    if not math.isfinite(rate) or rate < 0:
        message = f"get_estimated_bandwidth returned {number}; expected a number of bits per second, at least 0"
        raise UnusableError(message)
    return min(rate, 1e15)


def shortened(value: Any) -> str:
    """The value as Python prints it, in one line of at most 80 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def in_one_line(error: BaseException, folder: Path, what: str) -> str:
    """The exception in one line, with its place in the estimator's own files."""
    text = " ".join(str(error).split())
    exception = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if len(exception) > 500:
        exception = f"{exception[:497]}..."
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if Path(frame.filename).is_relative_to(folder):
            return f"{what} raised {exception} ({Path(frame.filename).relative_to(folder)}, line {frame.lineno})"
    return f"{what} raised {exception}"


class Worker:
    """Exchanges lines with the process that started this one."""

    def __init__(self, path: Path, seed: int, requests: TextIO, answers: TextIO) -> None:
        """A worker whose estimator is not loaded yet."""
        self.path = path
        self.seed = seed
        self.requests = requests
        self.answers = answers
        self.doing = "loading it"

    def answer(self, **fields: object) -> None:
        """Sends one line."""
        self.answers.write(json.dumps(fields) + "\n")
        self.answers.flush()

    def work(self) -> None:
        """Loads the estimator and answers requests until standard input ends."""
        seeded_draws(self.seed)
        virtual_clocks()
        module = load(self.path)
        self.doing = "Estimator()"
        if not hasattr(module, "Estimator"):
            message = f"{self.path.name} has no class Estimator"
            raise UnusableError(message)
        seed_libraries(self.seed)
        estimator = module.Estimator()
        self.answer()
        for line in self.requests:
            request = json.loads(line)
            self.doing = "report_states"
            report(estimator, request["packets"], CLOCK)
            self.doing = "get_estimated_bandwidth"
            CLOCK.nanoseconds = request["now"]
            self.answer(estimate=bits_per_second(estimator.get_estimated_bandwidth()))

    def run(self) -> None:
        """Runs :meth:`work` and reports any failure as an error line."""
        try:
            self.work()
        except UnusableError as error:
            self.answer(error=str(error))
        except BaseException as error:
            self.answer(error=in_one_line(error, self.path.parent, self.doing))


def end() -> None:
    """Ends this process and, if it leads a process group, the whole group."""
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    # A normal exit would wait for threads that the estimator left running, perhaps forever.
    os._exit(0)


def end_with(requests: int) -> None:
    """Ends everything once the requesting end has closed, however busy the estimator is."""
    poll = select.poll()
    # No events requested: `poll` then only reports that the other end is closed.
    poll.register(requests, 0)
    poll.poll()
    end()


def main() -> None:
    """Entry point of the process."""
    # Output of the estimator and of its child processes must not mix with the answers.
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    if hasattr(select, "poll"):
        # A raw thread, invisible to the estimator's `threading` module.
        start_new_thread(end_with, (requests.fileno(),))
    try:
        Worker(Path(sys.argv[1]), int(sys.argv[2]), requests, answers).run()
    finally:
        # A closed answer stream is an ordinary end.
        end()


if __name__ == "__main__":
    main()
