"""`lockstep-bench-gym`: steps per second of the vector environment, with calls at about 1 Mb/s.

The rate uses the CPU time of the process, so that other work on the machine does not count. On an idle machine, the
wall-clock rate is this rate times the number of cores.
"""

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from lockstep.gym.environment import CallVectorEnv
from lockstep.module_command import ArgumentParser, print_error

COUNTS = (64, 256, 1024, 4096)
"""Default numbers of calls that step together."""
RATE_BPS = 1e6
"""Mean rate of the agents, bit/s."""
TRACES = ("constant:1.2mbps", "cellular:mean=2mbps,seed=1", "cellular:mean=2mbps,seed=2")
"""Paths whose capacity exceeds that rate most of the time."""


@dataclass(frozen=True)
class Speed:
    """Speed of stepping one number of calls."""

    calls: int
    steps: int
    """Steps of one call, summed over all calls."""
    seconds: float
    """Wall-clock time."""
    cpu_seconds: float
    """CPU time of all cores together."""

    @property
    def per_second(self) -> float:
        """Steps a second by the wall clock."""
        return self.steps / self.seconds

    @property
    def per_cpu_second(self) -> float:
        """Steps a second of one core."""
        return self.steps / self.cpu_seconds


def measure(calls: int, steps: int, threads: int = 0, seed: int = 1) -> Speed:
    """Steps `calls` calls about `steps` times in total, after a warm-up of a tenth as many steps."""
    environment = CallVectorEnv(calls, traces=list(TRACES), threads=threads)
    environment.reset(seed=seed)
    random = np.random.default_rng(seed)
    # Places on the logarithmic scale of rates. The actions repeat, so that drawing them costs no time.
    middle = np.log(RATE_BPS / 1e4) / np.log(8e6 / 1e4)
    actions = random.normal(middle, 0.03, (16, calls, 1)).clip(0.0, 1.0).astype(np.float32)
    rounds = max(1, -(-steps // calls))
    for index in range(max(1, rounds // 10)):
        environment.step(actions[index % len(actions)])
    wall, cpu = time.perf_counter(), time.process_time()
    for index in range(rounds):
        environment.step(actions[index % len(actions)])
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    environment.close()
    return Speed(calls, rounds * calls, wall, max(cpu, 1e-9))


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = ArgumentParser(prog="lockstep-bench-gym", description=__doc__.partition(": ")[2])
    parser.add_argument(
        "--calls", type=int, nargs="+", default=list(COUNTS), help="numbers of calls that step together"
    )
    parser.add_argument("--steps", type=int, default=400_000, help="steps of each line, over all calls (%(default)s)")
    parser.add_argument("--threads", type=int, default=0, help="threads to step on; 0 for one per core (0)")
    parser.add_argument("--json", type=Path, help="also write the table as JSON to this file")
    options = parser.parse_args(arguments)
    if min(options.calls) < 1 or options.steps < 1 or options.threads < 0:
        parser.error("--calls and --steps must be at least 1, --threads at least 0")
    print(f"{'calls':>8}{'steps':>10}{'steps/s':>12}{'steps/CPU s':>14}")
    speeds = []
    for calls in options.calls:
        speed = measure(calls, options.steps, options.threads)
        print(f"{speed.calls:>8}{speed.steps:>10}{speed.per_second:>12.0f}{speed.per_cpu_second:>14.0f}", flush=True)
        speeds.append(asdict(speed) | {"per_second": speed.per_second, "per_cpu_second": speed.per_cpu_second})
    if options.json is not None:
        try:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(json.dumps(speeds, indent=2) + "\n")
        except OSError as error:
            print_error("lockstep-bench-gym", f"{options.json}: {error.strerror or error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
