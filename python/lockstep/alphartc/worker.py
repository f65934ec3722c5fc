"""The process in which one AlphaRTC estimator runs. It needs nothing but Python's own library.

`python3 -B -c SOURCE ESTIMATOR SEED`, in the estimator's folder. Lines of JSON come in on standard input, one for each
call of `get_estimated_bandwidth`:

    {"now": nanoseconds, "packets": [[arrival in nanoseconds, send_time_ms, arrival_time_ms, sequence_number,
                                      header_length, payload_size], ...]}

and for each, after a first `{}` once the estimator is there, one goes out on what was standard output: `{"estimate":
bits per second}`, or `{"error": "what is wrong"}`, which is the last. What the estimator prints goes to standard error.

The estimator lives in virtual time: all clocks that it can read in Python show the time of the call, and draws are
seeded, so that the same call gives the same estimates.

The process ends once standard input does, and so do those that it started, where they are a group of their own.

Estimators may want an older Python than the rest of this package does; this file is content with 3.9.
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

# What waits with these does so in real time, although estimators do not: they keep the clock that they find now.
for _module in ("queue", "selectors", "socket", "subprocess", "threading"):
    importlib.import_module(_module)

EPOCH_SECONDS = 1_609_459_200
"""What the wall clock shows when a call begins: 2021-01-01 UTC, as good as any other date in the past."""

PAYLOAD_TYPE = 126
"""A dynamic one (RFC 3551, section 3): video in AlphaRTC's examples."""
SYNCHRONIZATION_SOURCE = 1

REAL_DATETIME = datetime_module.datetime
REAL_DATE = datetime_module.date


class UnusableError(Exception):
    """What is loaded is no estimator, or what it returned is no estimate."""


class Clock:
    """The call's time."""

    def __init__(self) -> None:
        """A clock at the call's start."""
        self.nanoseconds = 0


CLOCK = Clock()


class _AnyDatetime(type):
    """Whatever is a real `datetime` is one of the estimator's as well."""

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
    """Puts virtual clocks where estimators look for real ones."""
    # A call at zero on clocks that have no meaning but differences would look like one that never began.
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
    # Those that take the present where they are given nothing.
    for name, position in (("gmtime", 0), ("localtime", 0), ("ctime", 0), ("asctime", 0), ("strftime", 1)):
        real = getattr(time, name)

        def at_present(*given: Any, real: Any = real, name: str = name, position: int = position) -> Any:
            if len(given) > position and given[position] is not None:
                return real(*given)
            seconds = wall_nanoseconds() / 1e9
            present = REAL_GMTIME(seconds) if name in ("asctime", "strftime") else seconds
            return real(*given[:position], present)

        replacements[name] = at_present
    for name, replacement in replacements.items():
        setattr(time, name, replacement)
    modules: Any = datetime_module
    modules.datetime = VirtualDatetime
    modules.date = VirtualDate


REAL_GMTIME = time.gmtime


def seeded_draws(seed: int) -> None:
    """Makes the operating system's randomness, from which generators are seeded that have no seed, come from `seed`."""
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
    """The estimator's module, as if it had been imported by its name."""
    sys.path[:] = [str(path.parent), *(entry for entry in sys.path if entry not in ("", str(path.parent)))]
    sys.argv = [str(path)]
    specification = importlib.util.spec_from_file_location(path.stem, path)
    if specification is None or specification.loader is None:
        message = f"{path.name} is no Python file"
        raise ImportError(message)
    module = importlib.util.module_from_spec(specification)
    sys.modules[path.stem] = module
    specification.loader.exec_module(module)
    return module


def report(estimator: Any, packets: list[tuple[int, int, int, int, int, int]], clock: Clock) -> None:
    """Reports `packets` to `estimator`, each at its time; for what they are made of, see above."""
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
    """What the estimator returned, as a number.

    NumPy's and PyTorch's scalars are numbers; of a pair, as BoB's heuristic returns, the first counts.

    Raises:
        UnusableError: If it is no number, not finite, or negative.

    """
    number = value[0] if isinstance(value, (tuple, list)) and value else value
    if not isinstance(number, (int, float)) and hasattr(number, "item"):
        number = number.item()
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        message = f"get_estimated_bandwidth returned {shortened(value)}, which is no number of bits per second"
        raise UnusableError(message)
    try:
        rate = float(number)
    except OverflowError:
        # Python does not write whole numbers of any length, either.
        message = "get_estimated_bandwidth returned a whole number beyond all bits per second"
        raise UnusableError(message) from None
    if not math.isfinite(rate) or rate < 0:
        message = f"get_estimated_bandwidth returned {number}, which is no number of bits per second"
        raise UnusableError(message)
    return min(rate, 1e15)


def shortened(value: Any) -> str:
    """The value as Python shows it, in one line of no great length."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def in_one_line(error: BaseException, folder: Path, what: str) -> str:
    """What was raised, and where in the estimator's own files."""
    text = " ".join(str(error).split())
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if len(said) > 500:
        said = f"{said[:497]}..."
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if Path(frame.filename).is_relative_to(folder):
            return f"{what} raised {said} ({Path(frame.filename).relative_to(folder)}, line {frame.lineno})"
    return f"{what} raised {said}"


class Worker:
    """Exchanges lines with whoever started this process."""

    def __init__(self, path: Path, seed: int, requests: TextIO, answers: TextIO) -> None:
        """A worker that has not loaded its estimator yet."""
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
        """Loads the estimator and asks it until nobody wants to know any more."""
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
        """Works, and says what went wrong if something did."""
        try:
            self.work()
        except UnusableError as error:
            self.answer(error=str(error))
        except BaseException as error:
            self.answer(error=in_one_line(error, self.path.parent, self.doing))


def end() -> None:
    """Ends this process, and those that it started if it was made the first of a group."""
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    # Not by way of the interpreter's end: threads that an estimator left running could hold it up for ever.
    os._exit(0)


def end_with(requests: int) -> None:
    """Ends everything once nobody is there who could ask, however busy the estimator is."""
    poll = select.poll()
    # Of nothing but that the other end is closed.
    poll.register(requests, 0)
    poll.poll()
    end()


def main() -> None:
    """The process."""
    # What the estimator prints, or what it starts prints, must not get among the answers.
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    if hasattr(select, "poll"):
        # A thread of which the estimator's own know nothing.
        start_new_thread(end_with, (requests.fileno(),))
    try:
        Worker(Path(sys.argv[1]), int(sys.argv[2]), requests, answers).run()
    finally:
        # That nobody takes an answer any more is an end like others.
        end()


if __name__ == "__main__":
    main()
