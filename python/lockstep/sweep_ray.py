"""Runs the calls of a sweep, or sessions, on a Ray cluster for `lockstep sweep --on ray://HOST:PORT`.

A machine of the cluster runs each part with `lockstep sweep`, from a file of one or a few jobs. This program prints
the output, one line for each call, as soon as it arrives.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from lockstep.module_command import ArgumentParser, print_error
from lockstep.ray_cluster import LOCAL, ClusterError, connect, results

JOBS_OF_A_TASK = 8
"""Largest number of jobs in a task: starting a task costs more time than a short call."""

Job = dict[str, Any]
"""A job in the format of `lockstep sweep`; only that command interprets it."""


def split(jobs: list[Job], cores: int) -> list[list[Job]]:
    """Divides the jobs into parts of at most `JOBS_OF_A_TASK`, or smaller if some core would have none."""
    size = max(1, min(JOBS_OF_A_TASK, len(jobs) // max(cores, 1)))
    return [jobs[start : start + size] for start in range(0, len(jobs), size)]


def run_jobs(program: str, jobs: list[Job], words: Sequence[str] = ("sweep",)) -> list[str]:
    """Runs `jobs` on one core of this machine; returns one journal line for each.

    Raises:
        ClusterError: If the program cannot run or fails.

    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.json"
        path.write_text(json.dumps(jobs), encoding="utf-8")
        command = [program, *words, "--workers", "1", "--job-file", str(path)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        except OSError as error:
            raise ClusterError(f"cannot run {program} on this machine: {error}") from error
    if done.returncode != 0:
        raise ClusterError(f"{program} failed: {done.stderr.strip() or done.returncode}")
    return done.stdout.splitlines()


def on_ray(address: str, program: str, jobs: list[Job], words: Sequence[str] = ("sweep",)) -> Iterator[list[str]]:
    """Yields the lines of each part of `jobs`, in the order in which the cluster finishes them.

    Raises:
        ClusterError: If Ray is missing, there is no cluster at `address`, or a part fails.

    """
    ray = connect(address)
    parts = split(jobs, int(ray.cluster_resources().get("CPU", 1)))
    for _, lines in results(ray, run_jobs, [(program, part, words) for part in parts]):
        if isinstance(lines, ClusterError):
            raise lines
        yield lines


def run(lines: Iterable[list[str]], emit: Callable[[str], None]) -> int:
    """Passes each line to `emit` as it arrives; returns the number of lines."""
    count = 0
    for part in lines:
        for line in part:
            emit(line)
            count += 1
    return count


def main() -> int:
    """Runs the jobs of a file on a cluster."""
    parser = ArgumentParser(prog="python -m lockstep.sweep_ray", description=__doc__.splitlines()[0])
    parser.add_argument("--address", required=True, help=f"ray://HOST:PORT, or {LOCAL}")
    parser.add_argument("--jobs", required=True, type=Path, help="file of jobs that lockstep sweep wrote")
    parser.add_argument("--program", required=True, help="path of the lockstep command on the machines of the cluster")
    parser.add_argument("--command", nargs="+", default=["sweep"], help="subcommand of lockstep that runs the jobs")
    arguments = parser.parse_args()
    try:
        jobs = json.loads(arguments.jobs.read_text(encoding="utf-8"))
        count = run(
            on_ray(arguments.address, arguments.program, jobs, arguments.command), lambda line: print(line, flush=True)
        )
    except (OSError, ValueError) as error:
        print_error("lockstep.sweep_ray", error)
        return 1
    if count != len(jobs):
        print(f"lockstep.sweep_ray: {len(jobs)} jobs gave {count} results", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
