"""Entry points of scripts that require an extra; if it is missing, the error names it."""

from lockstep.module_command import run_entry


def report() -> int:
    """Runs `lockstep-report`; returns the exit status."""
    return run_entry("lockstep.report", "main", "lab", command="lockstep-report")


def bench_report() -> int:
    """Runs `lockstep-bench-report`; returns the exit status."""
    return run_entry("lockstep.bench_report", "main", "lab", command="lockstep-bench-report")


def sweep_plot() -> int:
    """Runs `lockstep-sweep-plot`; returns the exit status."""
    return run_entry("lockstep.sweep_plot", "main", "lab", command="lockstep-sweep-plot")


def rate_miss() -> int:
    """Runs `lockstep-rate-miss`; returns the exit status."""
    return run_entry("lockstep.rate_miss", "main", "lab", command="lockstep-rate-miss")


def sources_plot() -> int:
    """Runs `lockstep-sources-plot`; returns the exit status."""
    return run_entry("lockstep.sources_plot", "main", "lab", command="lockstep-sources-plot")


def bench_gym() -> int:
    """Runs `lockstep-bench-gym`; returns the exit status."""
    return run_entry("lockstep.gym.bench", "main", "gym", command="lockstep-bench-gym")
