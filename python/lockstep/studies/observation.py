"""Concerto's observation: with GCC, video gets less than a full-throttle source, and recovers later.

The calls are those of ``lockstep sources``, one run for each seed and kind of links. A last part measures how closely
a conventional codec follows its target. The paper's figures are in its section 2.3 (MobiCom 2019).
"""

import argparse
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars

from lockstep import rate_miss
from lockstep.command import lockstep_command
from lockstep.content_hash import content_hash
from lockstep.controllers import Controller, PathView, Sending
from lockstep.simulation import simulate
from lockstep.sources_plot import chart as recovery_chart
from lockstep.sources_plot import curves, shares
from lockstep.studies.printed import PaperFigure, comparison, row_mean
from lockstep.study import TRIED_SECONDS, Cell, Study, Work, chart, own, summary, timed, words

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
SHOWN = {
    "against_full": 1,
    "throughput_mbps": 2,
    "delay_ms": 0,
    "delay_p95_ms": 0,
    "loss": 2,
    "reduction": 0,
    "reduction_ratio": 2,
    "updates": 0,
}
"""Columns of the table of varying links, with digits.

Throughput relative to the full-throttle source with the same control (percent) and in Mb/s; one-way delay of packets,
mean and 95th percentile; loss, percent; reduction of the bit rate after a drop of the capacity, in percent and relative
to full throttle; updates of GCC's delay-based estimate per second.
"""
DRAWN = {"against_full": "throughput against full throttle, %", "delay_ms": "one-way delay, ms", "loss": "loss, %"}
RECOVERY_SHOWN = {
    "reduction": 0,
    "reduction_ratio": 2,
    "back_s": 1,
    "back_ratio": 1,
    "never": 0,
    "updates": 0,
    "updates_share": 0,
}
"""Columns of the table of returning links, with digits.

Reduction as above; seconds until the received rate is 70 % of the capacity, and their ratio to full throttle's; calls
that never recover, percent; updates until then per second, and their share of full throttle's, percent.
"""
CODEC = "observation-codec"
"""The part with a conventional codec at fixed targets."""
TARGETS_KBPS = tuple(range(100, 2_001, 100))
"""Targets of its calls, kb/s: the paper's."""
CODEC_CLIP = "generated:640x360@30"
CODEC_SECONDS = 60.0
"""Length of its calls, as the paper's clips, seconds."""
STEP = (400_000, 1_000_000)
"""Targets before and after :data:`STEP_AT_SECONDS` of a call, bit/s."""
STEP_AT_SECONDS = 10.0
STEP_SECONDS = 20.0
APPROACHED = 0.2
"""Largest relative distance of an approached target."""
APPROACH_WINDOW_SECONDS = 0.5
CODEC_SHOWN = {"deviation": 2, "peak": 2, "mean_miss": 2}
"""Columns of its table, with digits: standard deviation and maximum of rate over target, and mean deviation."""

SECTION = "Concerto, MobiCom 2019, section 2.3, "
MEASURED = "GCC of 2018 is built here from today's parts of GCC, and the links are generated."
EXAMPLE = "Their example is one run over an unknown link. These links fall to a fifth or two fifths."


def _deviation_at_ends(means: polars.DataFrame) -> str:
    """The standard deviation at the lowest and at the highest target."""
    rows = means.sort("target_kbps")
    return f"{own(rows.row(0, named=True), 'deviation', 2)} and {own(rows.row(-1, named=True), 'deviation', 2)}"


FIGURES = (
    PaperFigure(
        "observation",
        "throughput of video against full throttle",
        "-21.6 %",
        SECTION + "figure 7",
        row_mean("against_full", 1, "%", **THEN),
        f"With the usual settings the effect has the same direction and is smaller: {MEASURED} With the current GCC, "
        "whose pacer sends a frame in one burst, video gets no less than full throttle.",
    ),
    PaperFigure(
        "observation",
        "delay of video",
        "304 ms",
        SECTION + "figure 7",
        row_mean("delay_ms", 0, "ms", **THEN),
        "The measured delay is the one-way delay of packets over different links and queues. Theirs are unknown.",
    ),
    PaperFigure(
        "observation",
        "delay of full throttle",
        "141 ms",
        SECTION + "figure 7",
        row_mean("delay_ms", 0, "ms", **THEN_FULL),
        "As for the delay of video.",
    ),
    PaperFigure(
        "observation-short-queue",
        "loss of video",
        "4.8 %",
        SECTION + "figure 7",
        row_mean("loss", 2, "%", **THEN),
        "Loss depends on the length of the queue, and theirs is unknown. A queue of 256 packets loses less.",
    ),
    PaperFigure(
        "observation-short-queue",
        "loss of full throttle",
        "0.44 %",
        SECTION + "figure 7",
        row_mean("loss", 2, "%", **THEN_FULL),
        "As for the loss of video.",
    ),
    PaperFigure(
        "observation",
        "reduction of video's bit rate over full throttle's",
        "1.2",
        SECTION + "figure 9",
        row_mean("reduction_ratio", 2, "", **THEN),
        "The reduction is that of the lowest second within 10 s of a drop of the capacity. Their rule is unknown.",
    ),
    PaperFigure(
        RECOVERY,
        "reduction of video's bit rate",
        "83.6 % (M1), 58.5 % (M2), one run",
        SECTION + "figure 8",
        row_mean("reduction", 0, "%", **THEN),
        EXAMPLE,
    ),
    PaperFigure(
        RECOVERY,
        "reduction of full throttle's bit rate",
        "44.9 % (M1), 25.8 % (M2), one run",
        SECTION + "figure 8",
        row_mean("reduction", 0, "%", **THEN_FULL),
        EXAMPLE,
    ),
    PaperFigure(
        RECOVERY,
        "recovery time of video's bit rate",
        "over 150 s (M3), one run",
        SECTION + "figure 8",
        row_mean("back_s", 1, "s", **THEN),
        f"Recovery here means 70 % of the capacity; their definition is unknown. {MEASURED}",
    ),
    PaperFigure(
        RECOVERY,
        "recovery time of full throttle",
        "20 s (M3), one run",
        SECTION + "figure 8",
        row_mean("back_s", 1, "s", **THEN_FULL),
        "The drop of capacity differs from theirs.",
    ),
    PaperFigure(
        RECOVERY,
        "recovery time of video over full throttle's",
        "4.8",
        SECTION + "figure 10",
        row_mean("back_ratio", 1, "", **THEN),
        f"Their mean is over 1000 sessions. {MEASURED}",
    ),
    PaperFigure(
        RECOVERY,
        "updates of GCC with video against full throttle, during recovery",
        "50.6 %",
        SECTION + "figure 14",
        row_mean("updates_share", 0, "%", **THEN),
        "Updates here are those of the delay-based estimate.",
    ),
    PaperFigure(
        CODEC,
        "largest rate of a second over a target of 1 Mb/s",
        "up to 2",
        SECTION + "figure 11",
        row_mean("peak", 2, "", target_kbps=1_000),
        "The codec is a model of WebRTC's settings of libvpx (with --real, Lockstep's encoder). Theirs is ffmpeg's.",
    ),
    PaperFigure(
        CODEC,
        "standard deviation of rate over target, at 0.1 and at 2 Mb/s",
        "larger at low targets (values only in the picture)",
        SECTION + "figure 12",
        _deviation_at_ends,
        "As for the largest rate.",
    ),
    PaperFigure(
        CODEC,
        "time until the codec approaches a new target",
        "at least 1 s",
        SECTION + "figure 13",
        row_mean("approach_s", 1, "s", target_kbps=STEP[1] // 1_000),
        "From 0.4 to 1 Mb/s, until half a second is within 20 % of the target. The modelled codec applies a target "
        "once a second.",
    ),
)
"""Figures of the paper."""


def works(study: Study, options: argparse.Namespace) -> list[Work]:
    """All runs of the command; short calls over the varying links of a seed give the times."""
    settings = [*(_varying_setting(options, packets) for packets in QUEUES.values()), RETURNING]
    counts = [len(study.unfinished(_cells(options, setting))) for setting in settings]
    codec = study.unfinished(_codec_cells(options))
    found = []
    if codec:
        length = TRIED_SECONDS if options.real else TRIED_MODELLED_SECONDS
        trial = {**codec[0], "seconds": length}
        time = timed(lambda: run_codec(trial), length) * CODEC_SECONDS
        found.append(Work("calls of a conventional codec", len(codec), time))
    if not any(counts):
        return found
    seconds = _seconds(options)
    cell = {"links": "varying", "given": links(1), "seed": 1, "queue_packets": USUAL_QUEUE}

    def tried(*, real: bool) -> float:
        """Time of a second of a seed's calls."""
        length = TRIED_SECONDS if real else min(TRIED_MODELLED_SECONDS, seconds)
        whole = {**cell, "seconds": length, "real": real}
        return timed(lambda: run_sources(study, Path(lockstep_command()), whole), length)

    modelled = tried(real=False)
    usual = tried(real=True) if options.real else modelled
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
    _codec(study, options)


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
        "loss": percent(row["packet_loss"]),
        "reduction": percent(row["reduction"]),
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
        "reduction": percent(row["reduction"]),
        "back_s": row["seconds"],
        "never": 0.0 if row["came_back"] else 100.0,
        "updates": row["samples_a_second"],
        "share": shares(row),
    }


def percent(share: float | None) -> float | None:
    """A share in percent; None if it is unknown."""
    return None if share is None else 100.0 * share


def over_full(table: polars.DataFrame, ratios: Mapping[str, str]) -> polars.DataFrame:
    """Adds columns: a measure over full throttle's mean, by the names in ``ratios``.

    A ratio is null for full throttle itself, and where its mean is 0. The mean is over all links of the same control
    and seed, so that a seed's mean is a ratio of two means.
    """
    by = ("control", "seed")
    full = table.filter(polars.col("source") == "full throttle").group_by(by)
    means = full.agg(polars.col(measure).mean().alias(f"full {name}") for name, measure in ratios.items())
    is_other = polars.col("source") != "full throttle"
    return (
        table.join(means, on=by, how="left", maintain_order="left")
        .with_columns(
            polars.when(is_other & (polars.col(f"full {name}") > 0.0))
            .then(polars.col(measure) / polars.col(f"full {name}"))
            .alias(name)
            for name, measure in ratios.items()
        )
        .drop(f"full {name}" for name in ratios)
    )


def against_full(table: polars.DataFrame) -> polars.DataFrame:
    """Adds ``against_full``, throughput relative to full throttle's in percent."""
    table = over_full(table, {"against_full": "throughput_mbps"})
    return table.with_columns(against_full=100.0 * (polars.col("against_full") - 1.0))


def _varying(study: Study, options: argparse.Namespace, part: str, table: polars.DataFrame) -> None:
    table = over_full(against_full(table), {"reduction_ratio": "reduction"})
    means = summary(table, ("control", "source"), list(SHOWN))
    study.report(words(means, ("control", "source"), SHOWN, {}))
    study.report(comparison(FIGURES, part, means, "the paper"))
    drawn = means.filter(polars.col("control").is_in(LADDERS))
    title = f"Sources with GCC, queues of {QUEUES[part]} packets, budget {options.budget}"
    study.write(part, table, {part: chart(drawn, ("source", "control"), DRAWN, title)})


def _returning(study: Study, options: argparse.Namespace, table: polars.DataFrame) -> None:
    ratios = {"reduction_ratio": "reduction", "back_ratio": "back_s", "updates_share": "updates"}
    table = over_full(table, ratios).with_columns(updates_share=100.0 * polars.col("updates_share"))
    means = summary(table, ("control", "source"), list(RECOVERY_SHOWN))
    study.report(words(means, ("control", "source"), RECOVERY_SHOWN, {}))
    study.report(comparison(FIGURES, RECOVERY, means, "the paper"))
    title = f"Recovery of the bit rate with GCC, budget {options.budget}"
    study.write(RECOVERY, table, {RECOVERY: recovery_chart(curves(table), title)})


def _codec_cells(options: argparse.Namespace) -> list[Cell]:
    """The calls of a conventional codec: a cell for each target and seed."""
    common = {
        "part": CODEC,
        "clip": CODEC_CLIP,
        "seconds": CODEC_SECONDS,
        "real": options.real,
        "command": content_hash(Path(lockstep_command())),
    }
    # A real encoder draws nothing at random.
    seeds = 1 if options.real else options.seeds
    return [{**common, "target_kbps": kbps, "seed": seed} for seed in range(1, seeds + 1) for kbps in TARGETS_KBPS]


def run_codec(cell: Cell) -> dict[str, Any]:
    """The deviations of a codec from a target, and its time to approach it after :data:`STEP`.

    Raises:
        ValueError: If the call fails.

    """
    words = () if cell["real"] else ("--modelled", "--seed", str(cell["seed"]))
    try:
        miss = rate_miss.ours(lockstep_command(), cell["clip"], cell["target_kbps"], cell["seconds"], words)
    except rate_miss.RateMissError as error:
        raise ValueError(str(error)) from error
    values = {"mean_miss": miss.mean, "deviation": miss.deviation, "peak": miss.peak}
    is_step = 1_000 * cell["target_kbps"] == STEP[1]
    return {**values, "approach_s": approach_seconds(cell) if is_step else None}


def approach_seconds(cell: Cell) -> float:
    """Time after the step of the target until half a second is close to it, seconds; the rest of the call if never."""

    class Step(Controller):
        """Allows the first rate of :data:`STEP`, then the second."""

        def allowance(self, path: PathView, sending: Sending) -> int:  # noqa: ARG002
            return STEP[path.now_ms >= 1_000.0 * STEP_AT_SECONDS]

    call = simulate(
        "constant:100mbps",
        clip=cell["clip"],
        controller=Step,
        codec="conventional",
        modelled=not cell["real"],
        seconds=STEP_SECONDS,
        seed=cell["seed"],
        max_bitrate="none",
    )
    frames = polars.DataFrame(call.frames).filter(polars.col("outcome") == "sent")
    bits = frames.select("captured_at", 8 * (polars.col("size") + rate_miss.HEADER_BYTES * polars.col("fragments")))
    after = bits.filter(polars.col("captured_at") >= STEP_AT_SECONDS).rows()
    for start, _ in after:
        window = [size for at, size in after if start <= at < start + APPROACH_WINDOW_SECONDS]
        rate = sum(window) / APPROACH_WINDOW_SECONDS
        if abs(rate / STEP[1] - 1.0) <= APPROACHED:
            return float(start - STEP_AT_SECONDS)
    return STEP_SECONDS - STEP_AT_SECONDS


def _codec(study: Study, options: argparse.Namespace) -> None:
    study.report(
        f"{CODEC}, budget {options.budget}: a conventional codec at fixed targets, {CODEC_SECONDS:.0f} s calls\n"
    )
    table = study.run(_codec_cells(options), run_codec, 1)
    means = summary(table, ("target_kbps",), [*CODEC_SHOWN, "approach_s"])
    study.report(words(means, ("target_kbps",), CODEC_SHOWN, {}))
    study.report(comparison(FIGURES, CODEC, means, "the paper"))
    drawn = {"deviation": "standard deviation of rate over target", "peak": "largest rate over target"}
    title = f"A conventional codec and its target, budget {options.budget}"
    study.write(CODEC, table, {CODEC: chart(means, ("target_kbps",), drawn, title)})
