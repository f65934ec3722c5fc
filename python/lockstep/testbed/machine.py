"""What the machine did meanwhile: processor time of programs and of everything else, and whether it was too little."""

import contextlib
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
LATE_LINK_MS = 5.0
"""The link's own lateness (p99) beyond which a run is not counted: a sixth of a frame at 30 a second."""
LATE_CAMERA_SHARE = 0.5
"""How late the camera's preview (p99) may be, in frame times: beyond it, frames were not handed over on time."""
MISSED_CAMERA_SHARE = 0.02
"""The share of frames that the camera may leave out."""
WAITED_MS = 5.0
"""How long all threads of both ends together may wait for a core, ms a frame. Waiting is what a busy machine does to a
program; that other programs keep the cores busy is no matter as long as these come first (`--first`)."""


def now() -> float:
    """The clock of all times here, s."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def process_tree(root: int) -> list[int]:
    """``root`` and all that descend from it, as /proc has them now."""
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
    """The processor time that these took so far, and children of theirs that have ended."""
    return sum(sum(map(int, fields[11:15])) for process in processes if (fields := _stat(process))) / TICKS


def thread_waits(processes: Iterable[int]) -> dict[int, float]:
    """How long each thread of these has waited for a core while it could have run, s (/proc/PID/task/TID/schedstat)."""
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
    """Processor seconds since the machine or the program started, at a time."""

    at: float
    busy: float
    stolen: float
    programs: Mapping[str, float]
    waits: Mapping[str, Mapping[int, float]]
    """By program, of each thread how long it has waited for a core."""


class Watch:
    """Samples the machine and the programs of a run; ``programs`` names the first process of each.

    Each has all that descends from it but for what belongs to an earlier one.
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
        """How long the threads of a program waited for a core, s a second."""
        total = 0.0
        for before, after in zip(self.samples, self.samples[1:], strict=False):
            known = before.waits[name]
            total += sum(max(0.0, waited - known.get(thread, 0.0)) for thread, waited in after.waits[name].items())
        return total / max(self.samples[-1].at - self.samples[0].at, 1e-9)

    def load(self) -> dict[str, float]:
        """Cores that each program used (`load_NAME`) and others; the share of all that was busy; waits for a core."""
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


def bottlenecks(  # noqa: PLR0913 - what can be one
    *,
    lateness_p99_ms: float | None,
    preview_late_p99: float,
    preview_missed: float,
    frame_seconds: float,
    waited: float,
    limited: Sequence[str],
) -> list[str]:
    """Why the machine, and not the link, may have decided what was measured; nothing if it did not."""
    found = []
    if lateness_p99_ms is not None and lateness_p99_ms > LATE_LINK_MS:
        found.append(f"the link itself was late by {lateness_p99_ms:.1f} ms (p99)")
    if preview_late_p99 > LATE_CAMERA_SHARE * frame_seconds:
        found.append(f"the camera's pictures were late by {1000 * preview_late_p99:.0f} ms (p99)")
    if preview_missed > MISSED_CAMERA_SHARE:
        found.append(f"the camera left out {100 * preview_missed:.1f} % of the frames")
    if 1000 * waited * frame_seconds > WAITED_MS:
        found.append(f"the programs waited for a core for {1000 * waited * frame_seconds:.0f} ms a frame")
    if "cpu" in limited:
        found.append("the encoder was limited by the processor (qualityLimitationReason)")
    return found


def unix_offset() -> float:
    """By how much the time of day is ahead of the clock of all times here, s, by the reading that took least."""
    readings = []
    for _ in range(9):
        before = now()
        there = time.time()
        after = now()
        readings.append((after - before, there - (before + after) / 2))
    return min(readings)[1]


def come_first() -> str | None:
    """Has this process and all that it starts run before others of the machine; gives why not where it cannot.

    In the class of real-time programs, at its lowest priority: a nice value does not do it, because kernels share time
    between sessions first (autogroup), and because whoever is nice runs for its time slice all the same.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except OSError as error:
        return f"{error.strerror}: it takes root, or CAP_SYS_NICE"
    return None


def come_last(process: int) -> None:
    """Has a process that came first wait for those that do; it still comes before the machine's other programs."""
    for thread in Path(f"/proc/{process}/task").iterdir():
        with contextlib.suppress(OSError):
            if os.sched_getscheduler(int(thread.name)) == os.SCHED_RR:
                os.sched_setscheduler(int(thread.name), os.SCHED_OTHER, os.sched_param(0))
                os.setpriority(os.PRIO_PROCESS, int(thread.name), -15)


def machine_name() -> str:
    """What this machine is, for reports: processor and cores."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown processor"
    )
    return f"{os.cpu_count()} cores, {model}"
