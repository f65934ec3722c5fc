"""Load of the machine during a run: CPU time of the programs and of others, and whether it was the bottleneck."""

import contextlib
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
LATE_LINK_MS = 5.0
"""Largest lateness of the link (p99) in a counted run, ms: a sixth of a frame at 30 frames per second."""
LATE_CAMERA_SHARE = 0.5
"""Largest lateness of the camera's preview (p99) in a counted run, in frame times."""
MISSED_CAMERA_SHARE = 0.02
"""Largest share of frames that the camera may skip in a counted run."""
WAITED_MS = 5.0
"""Largest time that all threads of both ends together may wait for a core, ms per frame. Other programs may keep the
cores busy as long as the measured ones have priority (`--first`)."""


def now() -> float:
    """The clock of all times in the testbed, s."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def process_tree(root: int) -> list[int]:
    """``root`` and all its current descendants, from /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    waiting, found = [root], []
    while waiting:
        process = waiting.pop()
        found.append(process)
        waiting += children.get(process, [])
    return found


def processor_seconds(processes: Iterable[int]) -> float:
    """CPU time of these processes so far, including children that have ended."""
    return sum(sum(map(int, fields[11:15])) for process in processes if (fields := _stat(process))) / TICKS


def thread_waits(processes: Iterable[int]) -> dict[int, float]:
    """Time for which each runnable thread of these waited for a core, s (/proc/PID/task/TID/schedstat)."""
    found = {}
    for process in processes:
        try:
            for thread in Path(f"/proc/{process}/task").iterdir():
                found[int(thread.name)] = int((thread / "schedstat").read_text().split()[1]) / 1e9
        except (OSError, IndexError):
            continue
    return found


def _stat(process: int) -> list[str]:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


@dataclass(frozen=True, slots=True)
class Sample:
    """CPU seconds since the start of the machine or the program, at a time."""

    at: float
    busy: float
    stolen: float
    programs: Mapping[str, float]
    waits: Mapping[str, Mapping[int, float]]
    """Waiting time for a core, by program and thread."""


class Watch:
    """Samples the machine and the programs of a run; ``programs`` names the first process of each.

    A program contains all descendants of its first process, except those of an earlier program.
    """

    def __init__(self, programs: Mapping[str, int]) -> None:
        """Takes the first sample."""
        self._programs = dict(programs)
        self.samples: list[Sample] = []
        self.sample()

    def sample(self) -> None:
        """Takes a sample; once a second is enough."""
        fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        busy = sum(fields) - fields[3] - fields[4]
        trees: dict[str, list[int]] = {}
        taken: set[int] = set()
        for name, root in self._programs.items():
            trees[name] = [process for process in process_tree(root) if process not in taken]
            taken.update(trees[name])
        programs = {name: processor_seconds(tree) for name, tree in trees.items()}
        waits = {name: thread_waits(tree) for name, tree in trees.items()}
        self.samples.append(Sample(now(), busy / TICKS, fields[7] / TICKS, programs, waits))

    def waited(self, name: str) -> float:
        """Waiting time of a program's threads for a core, s per second."""
        total = 0.0
        for before, after in zip(self.samples, self.samples[1:], strict=False):
            known = before.waits[name]
            total += sum(max(0.0, waited - known.get(thread, 0.0)) for thread, waited in after.waits[name].items())
        return total / max(self.samples[-1].at - self.samples[0].at, 1e-9)

    def load(self) -> dict[str, float]:
        """Used cores by program (`load_NAME`) and by others; busy share of the machine; waiting times for a core."""
        first, last = self.samples[0], self.samples[-1]
        seconds = max(last.at - first.at, 1e-9)
        cores = os.cpu_count() or 1
        used = {name: (last.programs[name] - first.programs[name]) / seconds for name in self._programs}
        everything = (last.busy - first.busy) / seconds
        return {
            **{f"load_{name}": share for name, share in used.items()},
            "load_others": max(0.0, everything - sum(used.values())),
            "machine_busy": everything / cores,
            "stolen": (last.stolen - first.stolen) / seconds / cores,
            **{f"waited_{name}": self.waited(name) for name in self._programs},
        }


def bottlenecks(  # noqa: PLR0913 - each may be a bottleneck
    *,
    lateness_p99_ms: float | None,
    preview_late_p99: float,
    preview_missed: float,
    frame_seconds: float,
    waited: float,
    limited: Sequence[str],
) -> list[str]:
    """Reasons why the machine, and not the link, may have determined the result; empty if there are none."""
    found = []
    if lateness_p99_ms is not None and lateness_p99_ms > LATE_LINK_MS:
        found.append(f"the link itself was late by {lateness_p99_ms:.1f} ms (p99)")
    if preview_late_p99 > LATE_CAMERA_SHARE * frame_seconds:
        found.append(f"the camera's pictures were late by {1000 * preview_late_p99:.0f} ms (p99)")
    if preview_missed > MISSED_CAMERA_SHARE:
        found.append(f"the camera skipped {100 * preview_missed:.1f} % of the frames")
    if 1000 * waited * frame_seconds > WAITED_MS:
        found.append(f"the programs waited for a core for {1000 * waited * frame_seconds:.0f} ms per frame")
    if "cpu" in limited:
        found.append("the encoder was limited by the processor (qualityLimitationReason)")
    return found


def unix_offset() -> float:
    """Lead of the time of day over the clock of this module, s, by the shortest reading."""
    readings = []
    for _ in range(9):
        before = now()
        there = time.time()
        after = now()
        readings.append((after - before, there - (before + after) / 2))
    return min(readings)[1]


def raise_priority() -> str | None:
    """Gives this process and its children priority over others of the machine; returns the reason if it cannot.

    It uses the lowest real-time priority. A nice value is not enough: kernels first divide time between sessions
    (autogroup), and even processes with a high nice value run for their time slice.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except OSError as error:
        return f"{error.strerror}; requires root or CAP_SYS_NICE"
    return None


def lower_priority(process: int) -> None:
    """Removes the real-time priority of a process; it still has priority over the machine's other programs."""
    for thread in Path(f"/proc/{process}/task").iterdir():
        with contextlib.suppress(OSError):
            if os.sched_getscheduler(int(thread.name)) == os.SCHED_RR:
                os.sched_setscheduler(int(thread.name), os.SCHED_OTHER, os.sched_param(0))
                os.setpriority(os.PRIO_PROCESS, int(thread.name), -15)


def machine_name() -> str:
    """A name of this machine for reports: processor and cores."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown processor"
    )
    return f"{os.cpu_count()} cores, {model}"
