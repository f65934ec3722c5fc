"""Concerto's observation: with GCC, video gets less than a full-throttle source, and recovers later.

The calls are those of ``lockstep sources``, one run for each seed and kind of links. The paper's figures are in its
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
from lockstep.studies.printed import PaperFigure, comparison, row_mean
from lockstep.study import TRIED_SECONDS, Cell, Study, Work, chart, summary, timed, words

LADDERS = ("current GCC", "current GCC, without bursts of 40 ms", "GCC of 2018")
"""The controls with every source, which the plots show."""
THEN = {"control": LADDERS[2], "source": "video"}
"""The row closest to the paper's video: GCC of 2018, as far as today's parts allow."""
THEN_FULL = {"control": LADDERS[2], "source": "full throttle"}
QUEUES = {"observation": 256, "observation-short-queue": 40}
"""Parts of the table of varying links, with the queue length of the links in packets: the usual one, and one so short
that GCC's probing loses packets."""
USUAL_QUEUE = QUEUES["observation"]
RECOVERY = "observation-recovery"
"""The part with links whose capacity returns."""
RECOVERY_SECONDS = 240.0
"""Length of its calls, set by the command, seconds."""
RECOVERY_LINKS = 4
"""Number of its links, set by the command."""
RETURNING: Mapping[str, Any] = {
    "links": "returning",
    "queue_packets": USUAL_QUEUE,
    "seconds": RECOVERY_SECONDS,
    "real": False,
}
"""Setting of its calls."""
TRIED_MODELLED_SECONDS = 20.0
"""Length of a modelled trial call, seconds."""
LINK_MEANS = ("1.5mbps", "2mbps", "2.5mbps", "3mbps", "3.5mbps", "4mbps", "5mbps", "6mbps")
"""Mean rates of the generated varying links; each seed has other links, so that an interval includes links."""
SECONDS = {"small": 120.0, "full": 300.0, "paper": 2_747.0}
"""Default length of a call over a varying link, seconds, by budget; the paper's 1,000 sessions have 763 hours."""
SHOWN = {"against_full": 1, "throughput_mbps": 2, "delay_ms": 0, "delay_p95_ms": 0, "loss": 2, "updates": 0}
"""Columns of the table of varying links, with digits.

Throughput relative to the full-throttle source with the same control (percent) and in Mb/s; one-way delay of packets,
mean and 95th percentile; loss, percent; updates of GCC's delay-based estimate per second.
"""
DRAWN = {"against_full": "throughput against full throttle, %", "delay_ms": "one-way delay, ms", "loss": "loss, %"}
RECOVERY_SHOWN = {"back_s": 1, "never": 0, "updates": 0}
"""Columns of the table of returning links: seconds until the received rate is 70 % of the capacity, calls that never
recover (percent), and updates until then."""

SECTION = "Concerto, MobiCom 2019, section 2"
MEASURED = "GCC of 2018 is built here from today's parts of GCC, and the links are generated."
FIGURES = (
    PaperFigure(
        "observation",
        "throughput of video against full throttle",
        "-21.6 %",
        SECTION,
        row_mean("against_full", 1, "%", **THEN),
        f"With the usual settings the effect has the same direction and is smaller: {MEASURED} With the current GCC, "
        "whose pacer sends a frame in one burst, video gets no less than full throttle.",
    ),
    PaperFigure(
        "observation",
        "delay of video",
        "304 ms",
        SECTION,
        row_mean("delay_ms", 0, "ms", **THEN),
        "The measured delay is the one-way delay of packets over different links and queues. Theirs are unknown.",
    ),
    PaperFigure(
        "observation",
        "delay of full throttle",
        "141 ms",
        SECTION,
        row_mean("delay_ms", 0, "ms", **THEN_FULL),
        "As for the delay of video.",
    ),
    PaperFigure(
        "observation-short-queue",
        "loss of video",
        "4.8 %",
        SECTION,
        row_mean("loss", 2, "%", **THEN),
        "Loss depends on the length of the queue, and theirs is unknown. A queue of 256 packets loses less.",
    ),
    PaperFigure(
        "observation-short-queue",
        "loss of full throttle",
        "0.44 %",
        SECTION,
        row_mean("loss", 2, "%", **THEN_FULL),
        "As for the loss of video.",
    ),
    PaperFigure(
        RECOVERY,
        "recovery time of video's bit rate",
        "over 150 s, one run",
        SECTION,
        row_mean("back_s", 1, "s", **THEN),
        f"Recovery here means 70 % of the capacity; their definition is unknown. {MEASURED}",
    ),
    PaperFigure(
        RECOVERY,
        "recovery time of full throttle",
        "20 s, one run",
        SECTION,
        row_mean("back_s", 1, "s", **THEN_FULL),
        "The drop of capacity differs from theirs.",
    ),
)
"""Figures of the paper. Its updates of GCC, half as many with video as with full throttle, are in no figure."""


def works(study: Study, options: argparse.Namespace) -> list[Work]:
    """All runs of the command; short calls over the varying links of a seed give the times."""
    settings = [*(_varying_setting(options, packets) for packets in QUEUES.values()), RETURNING]
    counts = [len(study.unfinished(_cells(options, setting))) for setting in settings]
    if not any(counts):
        return []
    seconds = _seconds(options)
    cell = {"links": "varying", "given": links(1), "seed": 1, "queue_packets": USUAL_QUEUE}

    def tried(*, real: bool) -> float:
        """Time of a second of a seed's calls."""
        length = TRIED_SECONDS if real else min(TRIED_MODELLED_SECONDS, seconds)
        whole = {**cell, "seconds": length, "real": real}
        return timed(lambda: run_sources(study, Path(lockstep_command()), whole), length)

    modelled = tried(real=False)
    usual = tried(real=True) if options.real else modelled
    found = []
    for setting, count in zip(settings, counts, strict=True):
        if setting["links"] == "varying":
            time = (usual if setting["real"] else modelled) * seconds
        else:
            time = modelled / len(LINK_MEANS) * RECOVERY_LINKS * RECOVERY_SECONDS
        found.append(Work(f"runs of sources over {setting['links']} links", count, time))
    return found


def observation(study: Study, options: argparse.Namespace) -> None:
    """Runs all links with each seed, and prints, draws and writes the results."""
    seconds = _seconds(options)
    size = f"budget {options.budget}: {options.seeds} seeds"
    for part, packets in QUEUES.items():
        study.report(
            f"{part}, {size}; sources with GCC, {seconds:.0f} s calls over varying links, queues of {packets} packets\n"
        )
        _varying(study, options, part, _calls(study, options, _varying_setting(options, packets)))
    study.report(
        f"{RECOVERY}, {size}; after the return of the capacity; calls of four minutes over links with a "
        "fifth or two fifths of it for 20 s\n"
    )
    _returning(study, options, _calls(study, options, RETURNING))


def _seconds(options: argparse.Namespace) -> float:
    """Length of a call over a varying link, seconds."""
    return options.seconds or SECONDS[options.budget]


def _varying_setting(options: argparse.Namespace, packets: int) -> Mapping[str, Any]:
    real = options.real and packets == USUAL_QUEUE
    return {"links": "varying", "queue_packets": packets, "seconds": _seconds(options), "real": real}


def _cells(options: argparse.Namespace, setting: Mapping[str, Any]) -> list[Cell]:
    """The runs over one kind of links: a cell for each seed."""
    common = {"budget": options.budget, "command": content_hash(Path(lockstep_command()))}
    return [
        {
            "part": "observation",
            **setting,
            "given": links(seed) if setting["links"] == "varying" else [],
            "seed": seed,
            **common,
        }
        for seed in range(1, options.seeds + 1)
    ]


def _calls(study: Study, options: argparse.Namespace, setting: Mapping[str, Any]) -> polars.DataFrame:
    """The calls over one kind of links, one row each."""
    command = Path(lockstep_command())
    # The command itself uses every core.
    kept = study.run(_cells(options, setting), lambda cell: {"calls": run_sources(study, command, cell)}, 1)
    return kept.drop("given").explode("calls").unnest("calls")


def links(seed: int) -> list[str]:
    """The varying links of a seed; those of the first seed are the defaults of ``lockstep sources``."""
    first = len(LINK_MEANS) * (seed - 1) + 1
    return [f"cellular:mean={mean},seed={first + index}" for index, mean in enumerate(LINK_MEANS)]


def run_sources(study: Study, command: Path, cell: Cell) -> list[dict[str, Any]]:
    """Runs the calls of a cell with ``lockstep sources``; returns the values that the study keeps.

    Raises:
        ValueError: If the command fails; with its last line of output.

    """
    arguments = ["sources", "--links", cell["links"], "--seeds", str(cell["seed"]), "--seconds", str(cell["seconds"])]
    arguments += ["--queue-packets", str(cell["queue_packets"])]
    arguments += ["--traces", *cell["given"]] if cell["given"] else []
    arguments += ["--coded"] if cell["real"] else []
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        status = study.run_process([str(command), *arguments, "--json", "-"], output, errors)
        output.seek(0)
        errors.seek(0)
        if status != 0:
            lines = errors.read().decode(errors="replace").strip().splitlines()
            raise ValueError(f"lockstep sources failed with status {status}: {lines[-1] if lines else 'no message'}")
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
    """Adds the column ``against_full``: throughput relative to full throttle's mean, in percent.

    The column is null for full throttle itself. The mean is over all links of the same control and seed, so that a
    seed's mean is a ratio of two means.
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
    study.report(words(means, ("control", "source"), SHOWN, {}))
    study.report(comparison(FIGURES, part, means, "the paper"))
    drawn = means.filter(polars.col("control").is_in(LADDERS))
    title = f"Sources with GCC, queues of {QUEUES[part]} packets, budget {options.budget}"
    study.write(part, table, {part: chart(drawn, ("source", "control"), DRAWN, title)})


def _returning(study: Study, options: argparse.Namespace, table: polars.DataFrame) -> None:
    means = summary(table, ("control", "source"), list(RECOVERY_SHOWN))
    study.report(words(means, ("control", "source"), RECOVERY_SHOWN, {}))
    study.report(comparison(FIGURES, RECOVERY, means, "the paper"))
    title = f"Recovery of the bit rate with GCC, budget {options.budget}"
    study.write(RECOVERY, table, {RECOVERY: recovery_chart(curves(table), title)})
