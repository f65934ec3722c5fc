"""Effect of each tuned constant of the control path: calls with one change, compared with the same calls without it.

The evaluation set is fixed: modelled calls over generated links, and recordings if given, under every condition of
:data:`CONDITIONS`. A variant is a tuning such as ``jitter.weight=0.1`` (``lockstep controllers --constants`` lists the
names). Each of its calls is compared with the baseline call of the same link, condition and seed.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair
import polars

from lockstep.argument_types import whole
from lockstep.charts import Plot
from lockstep.command import lockstep_command
from lockstep.content_hash import content_hash
from lockstep.intervals import mean_interval
from lockstep.module_command import ArgumentParser
from lockstep.study import TRIED_SECONDS, Cell, Measures, Study, Work, add_arguments, timed

GENERATED = (
    *(f"cellular:mean={mean},seed={seed}" for seed, mean in enumerate(("150kbps", "600kbps", "2mbps", "8mbps"), 1)),
    *(f"constant:{rate}" for rate in ("30kbps", "120kbps", "500kbps", "2mbps", "20mbps", "200mbps")),
    "onoff:3mbps,on=1s,off=0.3s,loss=100%,seed=4",
    "constant:1mbps,outage=6s+2s",
)
"""The links of every evaluation."""
CONDITIONS = {
    "plain": "",
    "loss 1 %": "--loss 1%",
    "loss 5 %": "--loss 5%",
    "loss 10 %": "--loss 10%",
    "loss in bursts": "--burst-loss 1%,30%",
    "jitter 15 ms": "--jitter-ms 15",
    "delay 10 ms": "--delay-ms 10",
    "delay 150 ms": "--delay-ms 150",
    "delay 300 ms": "--delay-ms 300",
    "queue 5": "--queue-packets 5",
    "queue 30": "--queue-packets 30",
    "queue 1024": "--queue-packets 1024",
    "sound": "--audio",
    "two-way": "--two-way --reverse cellular:mean=1mbps,seed=12",
    "1080p": "--clip generated:1920x1080@30",
    "720p, loss 2 %": "--clip generated:1280x720@30 --loss 2%",
    "reverse path 48 kb/s": "--reverse constant:48kbps",
}
"""Conditions of the calls, as options of ``lockstep sweep``."""
BASELINE = "baseline"
"""The variant without a change."""
SMALL_SECONDS, FULL_SECONDS = 15, 30
DELAY = "video_delay_ms_p95"


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = ArgumentParser(prog="lockstep study ablation", description=(__doc__ or "").partition("\n")[0])
    add_arguments(made, "ablation")
    made.add_argument(
        "--variants",
        nargs="+",
        required=True,
        metavar="NAME=VALUE[,NAME=VALUE]",
        help="tunings; each is compared separately with the baseline",
    )
    made.add_argument(
        "--conditions",
        nargs="+",
        choices=CONDITIONS,
        default=list(CONDITIONS),
        help="conditions of the calls (default: all)",
    )
    made.add_argument(
        "--traces", nargs="+", default=[], metavar="TRACE", help="recordings in addition to the generated links"
    )
    made.add_argument("--controller", default="lockstep", help="the controller (%(default)s)")
    made.add_argument("--seconds", type=whole(1), help=f"length of a call ({SMALL_SECONDS}; full: {FULL_SECONDS})")
    return made


def compared(table: polars.DataFrame) -> polars.DataFrame:
    """One row for each variant: differences of its calls from the baseline, lowest mean first."""
    calls = table.explode("calls").unnest("calls")
    usual = calls.filter(polars.col("variant") == BASELINE)
    keys = ["condition", "trace", "seed"]
    rows: list[dict[str, Any]] = []
    for (variant,), changed in calls.filter(polars.col("variant") != BASELINE).group_by("variant", maintain_order=True):
        pairs = changed.join(usual, on=keys, suffix="_usual").with_columns(
            difference=polars.col("qoe_d") - polars.col("qoe_d_usual"),
            delay=100.0 * (polars.col("delay") / polars.col("delay_usual") - 1.0),
        )
        mean, half = mean_interval(pairs["difference"].to_list())
        by_condition = pairs.group_by("condition").agg(polars.col("difference").mean()).sort("difference")
        worst = by_condition.row(0, named=True)
        rows.append(
            {
                "variant": variant,
                "calls": len(pairs),
                "changed": int((pairs["difference"] != 0.0).sum()),
                "qoe_d": mean,
                "qoe_d_half": half,
                "worst_call": pairs["difference"].min(),
                "worst_condition": worst["condition"],
                "worst_condition_qoe_d": worst["difference"],
                "delay_p95_percent": pairs["delay"].median(),
                "delay_p95_mean_percent": pairs["delay"].mean(),
            }
        )
    return polars.DataFrame(rows).sort("qoe_d")


def chart(found: polars.DataFrame) -> Plot:
    """Differences of QoE_d with their intervals; a constant left of zero is worth keeping."""
    rows = found.with_columns(
        low=polars.col("qoe_d") - polars.col("qoe_d_half"), high=polars.col("qoe_d") + polars.col("qoe_d_half")
    )
    side = altair.Y("variant:N", sort=found["variant"].to_list(), title=None, axis=altair.Axis(labelLimit=400))
    base = altair.Chart(rows).encode(y=side)
    points = base.mark_point(filled=True).encode(x=altair.X("qoe_d:Q", title="QoE_d with the change minus baseline"))
    plot: Plot = altair.layer(base.mark_rule().encode(x="low:Q", x2="high:Q"), points)
    return plot.properties(title="Effect of changing a constant")


def words(found: polars.DataFrame) -> str:
    """The table as text."""
    width = max(len("variant"), *(len(name) for name in found["variant"]))
    lines = [f"{'variant':<{width}}  changed     QoE_d     +-     worst call  worst condition          p95, %"]
    lines += [
        f"{row['variant']:<{width}}  {row['changed']:>3}/{row['calls']:<3} {row['qoe_d']:>+9.4f}"
        f" {row['qoe_d_half']:.4f} {row['worst_call']:>+11.3f}"
        f"  {row['worst_condition']:<16} {row['worst_condition_qoe_d']:>+7.3f} {row['delay_p95_percent']:>+7.1f}"
        for row in found.iter_rows(named=True)
    ]
    return "\n".join(lines)


def measure(cell: Cell, traces: Sequence[str]) -> Measures:
    """The calls of a condition with a tuning."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "calls.parquet"
        command = [lockstep_command(), "sweep", "--controllers", cell["controller"], "--codecs", "modelled"]
        command += ["--traces", *traces, "--seeds", f"1-{cell['seeds']}", "--seconds", str(cell["seconds"])]
        command += [*CONDITIONS[cell["condition"]].split(), "--workers", "1", "--output", str(output)]
        if cell["variant"] != BASELINE:
            command += ["--tuning", cell["variant"]]
        run(command)
        table = polars.read_parquet(output).select("trace", "seed", "qoe_d", polars.col(DELAY).alias("delay"))
    return {"calls": table.to_dicts()}


def run(command: Sequence[str]) -> None:
    """Runs a sweep; a failure raises an error with the sweep's message."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()
        raise ValueError(last[-1] if last else f"the sweep failed with status {done.returncode}")


def main(arguments: list[str] | None = None) -> int:
    """Runs the study; returns the exit status."""
    options = parser().parse_args(arguments)
    full = options.budget == "full"
    seconds = options.seconds or (FULL_SECONDS if full else SMALL_SECONDS)
    traces = [*GENERATED, *options.traces]
    files = [content_hash(Path(trace)) for trace in options.traces]
    common = {
        "controller": options.controller,
        "seconds": seconds,
        "seeds": options.seeds or (2 if full else 1),
        "traces": " ".join([*GENERATED, *files]),
        "command": content_hash(Path(lockstep_command())),
    }
    cells = [
        {"variant": variant, "condition": condition, **common}
        for variant in dict.fromkeys([BASELINE, *options.variants])
        for condition in options.conditions
    ]
    study = Study("ablation", options.output, fresh=options.fresh)
    left = study.unfinished(cells)
    if left:
        each = timed(lambda: measure({**left[0], "seconds": TRIED_SECONDS}, traces), TRIED_SECONDS / seconds)
        study.announce([Work(f"sweeps of {len(traces)} traces", len(left), each, options.workers)])
    found = compared(study.run(cells, lambda cell: measure(cell, traces), options.workers))
    study.report(words(found))
    study.write("ablation", found, {"ablation": chart(found)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
