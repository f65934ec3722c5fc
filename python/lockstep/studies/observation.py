"""Concerto's observation: under GCC, video gets less than a source that always fills the target, and comes back later.

The calls are those of ``lockstep sources``, a run of it for each seed and kind of links. The paper's figures are of its
section 2 (MobiCom 2019).
"""

import argparse
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars

from lockstep.command import lockstep_command
from lockstep.content_hash import content_hash
from lockstep.sources_plot import chart as recovery_chart
from lockstep.sources_plot import curves, shares
from lockstep.studies.printed import PaperFigure, beside, row_mean
from lockstep.study import Cell, Study, chart, summary, words

LADDERS = ("GCC as it is", "GCC as it is, without bursts of 40 ms", "GCC of 2018")
"""The controls under which every source is run, and which the plots have."""
THEN = {"control": LADDERS[2], "source": "video"}
"""What is nearest to the paper's video: GCC as far as its parts allow as it was then."""
THEN_FULL = {"control": LADDERS[2], "source": "full throttle"}
QUEUES = {"observation": 256, "observation-short-queue": 40}
"""Parts of the table of varying links, and for how many packets the links' queues have room: as calls usually have, and
so few that GCC's way of finding out costs packets."""
USUAL_QUEUE = QUEUES["observation"]
RECOVERY = "observation-recovery"
"""The part with the links whose capacity returns."""
RECOVERY_SECONDS = 240.0
"""Its calls' length, which the command decides."""
LINK_MEANS = ("1.5mbps", "2mbps", "2.5mbps", "3mbps", "3.5mbps", "4mbps", "5mbps", "6mbps")
"""Of the generated links that vary; each seed has others, so that an interval is one over links, too."""
SECONDS = {"small": 120.0, "full": 300.0}
"""Length of a call over a varying link by budget, if not said."""
SHOWN = {"against_full": 1, "throughput_mbps": 2, "delay_ms": 0, "delay_p95_ms": 0, "loss": 2, "updates": 0}
"""What the table of varying links shows, with digits.

Throughput less that of the full-throttle source under the same control (percent) and in Mb/s; one-way delay of packets,
mean and 95th percentile; loss, percent; updates of GCC's estimate from delays a second.
"""
DRAWN = {"against_full": "throughput against full throttle, %", "delay_ms": "one-way delay, ms", "loss": "loss, %"}
RECOVERY_SHOWN = {"back_s": 1, "never": 0, "updates": 0}
"""What that of returning links shows: seconds until 70 % of the capacity come through, calls in which that is never so
(percent), and updates meanwhile."""

SECTION = "Concerto, MobiCom 2019, section 2"
MEASURED = "GCC of 2018 here is what GCC's parts of today allow of it, and the links are generated ones, not theirs."
FIGURES = (
    PaperFigure(
        "observation",
        "throughput of video against full throttle",
        "-21.6 %",
        SECTION,
        row_mean("against_full", 1, "%", **THEN),
        f"With the usual settings ours is in the same direction, and less: {MEASURED} Of GCC as it is, whose pacer "
        "sends a frame in one burst, video gets no less than full throttle.",
    ),
    PaperFigure(
        "observation",
        "delay of video",
        "304 ms",
        SECTION,
        row_mean("delay_ms", 0, "ms", **THEN),
        "Ours is the one-way delay of packets, over other links with other queues; theirs are not known here.",
    ),
    PaperFigure(
        "observation",
        "delay of full throttle",
        "141 ms",
        SECTION,
        row_mean("delay_ms", 0, "ms", **THEN_FULL),
        "The same holds.",
    ),
    PaperFigure(
        "observation-short-queue",
        "loss of video",
        "4.8 %",
        SECTION,
        row_mean("loss", 2, "%", **THEN),
        "Loss is what the queue has no room for, and theirs is not known; with 256 packets less is lost.",
    ),
    PaperFigure(
        "observation-short-queue",
        "loss of full throttle",
        "0.44 %",
        SECTION,
        row_mean("loss", 2, "%", **THEN_FULL),
        "The same holds.",
    ),
    PaperFigure(
        RECOVERY,
        "the bit rate of video is back after",
        "over 150 s, one run",
        SECTION,
        row_mean("back_s", 1, "s", **THEN),
        f"Here it is back when 70 % of the capacity come through; what theirs is measured by is not known. {MEASURED}",
    ),
    PaperFigure(
        RECOVERY,
        "that of full throttle after",
        "20 s, one run",
        SECTION,
        row_mean("back_s", 1, "s", **THEN_FULL),
        "Their fall of capacity is another than these.",
    ),
)
"""What the paper has. Its updates of GCC are half as many of video as of full throttle, in no figure."""


def observation(study: Study, options: argparse.Namespace) -> None:
    """Runs all links with each seed, and says, draws and writes what comes of them."""
    seconds = options.seconds or SECONDS[options.budget]
    size = f"budget {options.budget}: {options.seeds} seeds"
    for part, packets in QUEUES.items():
        study.say(f"{part}, {size}; sources under GCC, calls of {seconds:.0f} s over links that vary, queues of "
                  f"{packets} packets\n")  # fmt: skip
        real = options.real and packets == USUAL_QUEUE
        told = {"links": "varying", "queue_packets": packets, "seconds": seconds, "real": real}
        _varying(study, options, part, _calls(study, options, told))
    study.say(f"{RECOVERY}, {size}; from the return of the capacity on, calls of four minutes over links that carry a "
              "fifth or two of it for 20 s\n")  # fmt: skip
    told = {"links": "returning", "queue_packets": USUAL_QUEUE, "seconds": RECOVERY_SECONDS, "real": False}
    _returning(study, options, _calls(study, options, told))


def _calls(study: Study, options: argparse.Namespace, told: Mapping[str, Any]) -> polars.DataFrame:
    """The calls over one kind of links, a row each; those of a seed are a cell."""
    command = Path(lockstep_command())
    beside = {"budget": options.budget, "command": content_hash(command)}
    cells = [
        {
            "part": "observation",
            **told,
            "given": links(seed) if told["links"] == "varying" else [],
            "seed": seed,
            **beside,
        }
        for seed in range(1, options.seeds + 1)
    ]
    # The command has a call on every core.
    kept = study.run(cells, lambda cell: {"calls": run_sources(study, command, cell)}, 1)
    return kept.drop("given").explode("calls").unnest("calls")


def links(seed: int) -> list[str]:
    """The links that vary with a seed; with the first those that ``lockstep sources`` has if it is told none."""
    first = len(LINK_MEANS) * (seed - 1) + 1
    return [f"cellular:mean={mean},seed={first + index}" for index, mean in enumerate(LINK_MEANS)]


def run_sources(study: Study, command: Path, cell: Cell) -> list[dict[str, Any]]:
    """Runs the calls of a cell by ``lockstep sources``; gives what the study keeps of each.

    Raises:
        ValueError: If it fails; says what it said last.

    """
    told = ["sources", "--links", cell["links"], "--seeds", str(cell["seed"]), "--seconds", str(cell["seconds"])]
    told += ["--queue-packets", str(cell["queue_packets"])]
    told += ["--traces", *cell["given"]] if cell["given"] else []
    told += ["--coded"] if cell["real"] else []
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        status = study.run_process([str(command), *told, "--json", "-"], output, errors)
        output.seek(0)
        errors.seek(0)
        if status != 0:
            said = errors.read().decode(errors="replace").strip().splitlines()
            raise ValueError(f"lockstep sources ended with status {status}: {said[-1] if said else 'it said nothing'}")
        numbers = json.load(output)
    if cell["links"] == "varying":
        return [_varying_call(row) for row in numbers["calls"]]
    return [_returning_call(row) for row in numbers["recoveries"]]


def _varying_call(row: Mapping[str, Any]) -> dict[str, Any]:
    delay = row["one_way_delay_ms"] or {"mean": None, "p95": None}
    return {
        "trace": row["trace"],
        "control": row["control"],
        "source": row["source"],
        "throughput_mbps": row["throughput_bps"] / 1e6,
        "link_used": row["link_utilisation"],
        "delay_ms": delay["mean"],
        "delay_p95_ms": delay["p95"],
        "loss": None if row["packet_loss"] is None else 100.0 * row["packet_loss"],
        "reduction_ms": row["reduction_ms"],
        "recovery_ms": row["recovery_ms"],
        "target_updates": row["target_updates"],
        "updates": row["samples_a_second"],
    }


def _returning_call(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "trace": row["trace"],
        "control": row["control"],
        "source": row["source"],
        "back_s": row["seconds"],
        "never": 0.0 if row["came_back"] else 100.0,
        "updates": row["samples_a_second"],
        "share": shares(row),
    }


def against_full(table: polars.DataFrame) -> polars.DataFrame:
    """The calls with a column ``against_full``: throughput against full throttle's mean, percent more; none of itself.

    That mean is of the same control and seed over all links, so that a seed's mean is the ratio of two means.
    """
    by = ("control", "seed")
    full = table.filter(polars.col("source") == "full throttle").group_by(by)
    means = full.agg(polars.col("throughput_mbps").mean().alias("full"))
    other = polars.when(polars.col("source") != "full throttle").then(polars.col("throughput_mbps"))
    ratio = 100.0 * (other / polars.col("full") - 1.0)
    return table.join(means, on=by, how="left", maintain_order="left").with_columns(against_full=ratio).drop("full")


def _varying(study: Study, options: argparse.Namespace, part: str, table: polars.DataFrame) -> None:
    table = against_full(table)
    means = summary(table, ("control", "source"), list(SHOWN))
    study.say(words(means, ("control", "source"), SHOWN, {}))
    study.say(beside(FIGURES, part, means, "the paper"))
    drawn = means.filter(polars.col("control").is_in(LADDERS))
    title = f"Sources under GCC, queues of {QUEUES[part]} packets, budget {options.budget}"
    study.write(part, table, {part: chart(drawn, ("source", "control"), DRAWN, title)})


def _returning(study: Study, options: argparse.Namespace, table: polars.DataFrame) -> None:
    means = summary(table, ("control", "source"), list(RECOVERY_SHOWN))
    study.say(words(means, ("control", "source"), RECOVERY_SHOWN, {}))
    study.say(beside(FIGURES, RECOVERY, means, "the paper"))
    title = f"How the bit rate comes back under GCC, budget {options.budget}"
    study.write(RECOVERY, table, {RECOVERY: recovery_chart(curves(table), title)})
