"""Lockstep's own controller compared with other controllers, hindsight and the upper bound, on test traces.

Calls are sweeps, one for each family of traces and each condition. The tables have QoE_d with its 95 % interval over
traces and seeds, the worst call, delay, SSIM and link utilisation. ``--split`` adds the judging part of a manifest of
``lockstep data split`` as a family. The sweeps stay in the folder, so an interrupted study resumes.
"""

import argparse
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import polars

from lockstep.command import lockstep_command
from lockstep.intervals import mean_interval
from lockstep.learn.traces import split_names
from lockstep.module_command import ArgumentParser
from lockstep.study import TRIED_SECONDS, Study, Work, add_arguments, time_left, timed
from lockstep.sweep_plot import MEASURES, chart, joined

OWN, HINDSIGHT = "lockstep", "hindsight"
CLASSICAL = ("sprout", "salsify", "scream", "copa", "gcc", "nada", "bob-heuristic")
LEARNED = ("concerto", "rlv", "bob", "hrcc", "gemini")
OTHERS = (HINDSIGHT, *CLASSICAL, *LEARNED)
CLEAN = "clean"
CONDITIONS = {
    CLEAN: (),
    "loss-1": ("--loss", "0.01"),
    "loss-5": ("--loss", "0.05"),
    "long-path": ("--delay-ms", "75"),
}
"""Conditions of the calls, as options of ``lockstep sweep``."""
JUDGED_SEEDS = range(9_000_000_001, 9_000_000_007)
"""Seeds of generated traces. ``lockstep train`` draws its own below 2^31."""
FITTED = ("lte", "umts", "broadband", "wifi")
MEANS = ("300kbps", "800kbps", "1500kbps", "3mbps", "5mbps", "8mbps")
FEW = 6
"""Number of traces of a family with a small budget."""
PIXEL_TRACES = 2
"""Number of traces of a family for codecs with pixels."""
MODELLED, CONVENTIONAL, PIXELS = "modelled", "modelled-conventional", "functional"
ALL_FAMILIES = "mean of the families"
Sweeps: TypeAlias = tuple[str, str, tuple[str, ...]]
"""A pair of sweeps: its condition, its family and its codecs."""
SCORES = {
    "qoe_d": "qoe_d",
    "qoe_d_bound": "qoe_d_bound",
    "p95_ms": "video_delay_ms_p95",
    "ssim_db": "ssim_db_mean",
    "link_utilisation": "link_utilisation",
}
"""Columns of the table, and the columns of a sweep that they average."""


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = ArgumentParser(prog="lockstep study lockstep", description=(__doc__ or "").partition("\n")[0])
    add_arguments(made, "lockstep")
    made.set_defaults(workers=os.cpu_count() or 1)
    made.add_argument(
        "--split",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help="a manifest of `lockstep data split`; its judging part is a family; may be repeated",
    )
    made.add_argument("--model", type=Path, metavar="FILE", help="model of the controller `lockstep`")
    return made


def families(manifests: Sequence[Path]) -> dict[str, list[str]]:
    """Traces by the name of their family: those of ``manifests``, then generated ones.

    Raises:
        ValueError: If a manifest is invalid, or has no trace to judge by.

    """
    found = {manifest.stem: split_names(manifest)[1] for manifest in manifests}
    for manifest in manifests:
        if not found[manifest.stem]:
            raise ValueError(f"--split {manifest}: no trace to judge by in the manifest")
    for family in FITTED:
        found[f"{family} (fitted)"] = [f"fitted:family={family},seed={seed},seconds=60" for seed in JUDGED_SEEDS]
    found["cellular (generated)"] = [
        f"cellular:mean={mean},deviation=0.6,dwell=2s,outage-every=30s,duration=60s,seed={seed}"
        for seed, mean in zip(JUDGED_SEEDS, MEANS, strict=True)
    ]
    return found


def table(calls: polars.DataFrame) -> polars.DataFrame:
    """One row for each codec and controller of ``calls``, the best QoE_d of a codec first."""
    rows: list[dict[str, Any]] = []
    for (codec, controller), group in calls.group_by("codec", "controller", maintain_order=True):
        mean, half = mean_interval(group["qoe_d"].to_list())
        row = {"codec": codec, "controller": controller, "calls": len(group), "qoe_d": mean, "qoe_d_half": half}
        row |= {name: group[column].mean() for name, column in SCORES.items() if name != "qoe_d"}
        row |= {"worst_qoe_d": group["qoe_d"].min(), "worst_p95_ms": group["video_delay_ms_p95"].max()}
        rows.append(row)
    found = polars.DataFrame(rows, infer_schema_length=None).with_columns(
        polars.col("qoe_d_bound").cast(polars.Float64)
    )
    return with_pareto_front(found.sort("codec", "qoe_d", descending=[False, True]))


def with_pareto_front(found: polars.DataFrame) -> polars.DataFrame:
    """The same rows with ``on_front``: no controller but hindsight has both a shorter p95 and a higher SSIM."""
    rows = found.to_dicts()

    def beats(other: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
        may = other["controller"] != HINDSIGHT and other["codec"] == row["codec"]
        return bool(may and other["p95_ms"] < row["p95_ms"] and other["ssim_db"] > row["ssim_db"])

    return found.with_columns(polars.Series("on_front", [not any(beats(other, row) for other in rows) for row in rows]))


def means(rows: polars.DataFrame) -> polars.DataFrame:
    """The means over the families of modelled calls without loss."""
    clean = rows.filter(polars.col("condition") == CLEAN, polars.col("codec") == MODELLED)
    averages = [polars.col(name).mean() for name in SCORES]
    worst = [polars.col("worst_qoe_d").min(), polars.col("worst_p95_ms").max(), polars.col("calls").sum()]
    over = clean.group_by("codec", "controller", maintain_order=True).agg(*averages, *worst)
    found = over.with_columns(qoe_d_half=polars.lit(float("nan"))).sort("qoe_d", descending=True)
    return with_pareto_front(found).with_columns(family=polars.lit(ALL_FAMILIES), condition=polars.lit(CLEAN))


def verdict(rows: polars.DataFrame) -> str | None:
    """A sentence on QoE_d relative to the best classical controller: Lockstep's own, hindsight, and the bound."""
    by_name = {row["controller"]: row for row in rows.iter_rows(named=True)}
    classical = [by_name[name] for name in CLASSICAL if name in by_name]
    if not classical or OWN not in by_name or HINDSIGHT not in by_name:
        return None
    best = max(classical, key=lambda row: row["qoe_d"])
    own, hindsight = (by_name[name]["qoe_d"] - best["qoe_d"] for name in (OWN, HINDSIGHT))
    bound = by_name[OWN]["qoe_d_bound"]
    upper = "" if bound is None else f", the upper bound {bound - best['qoe_d']:+.3f}"
    return f"{OWN} is {own:+.3f} from {best['controller']}, the best classical one; {HINDSIGHT} {hindsight:+.3f}{upper}"


def words(title: str, rows: polars.DataFrame) -> str:
    """The table of one codec as text."""
    lines = [f"{title}: {rows['calls'][0]} calls each"]
    lines.append(f"{'':<16}   QoE_d      +-   worst   p95 ms    worst  SSIM dB  link %")
    for row in rows.iter_rows(named=True):
        half = f"{row['qoe_d_half']:.3f}" if math.isfinite(row["qoe_d_half"]) else "-"
        lines.append(
            f"{row['controller']:<16}{row['qoe_d']:>8.3f}{half:>8}{row['worst_qoe_d']:>8.2f}"
            f"{row['p95_ms']:>9.0f}{row['worst_p95_ms']:>9.0f}{row['ssim_db']:>9.2f}"
            f"{100.0 * row['link_utilisation']:>8.0f}{'   on the front' if row['on_front'] else ''}"
        )
    sentence = verdict(rows)
    return "\n".join([*lines, *([sentence] if sentence else []), ""])


def sweep(
    options: argparse.Namespace, family: str, traces: Sequence[str], condition: str, codecs: Sequence[str]
) -> Path:
    """Runs the sweeps of a family under a condition; returns the folder of their Parquet files."""
    pixels = PIXELS in codecs
    slug = re.sub(r"[^A-Za-z0-9]", "-", family)
    folder: Path = options.output / "sweeps" / f"{slug}-{condition}{'-pixels' if pixels else ''}"
    folder.mkdir(parents=True, exist_ok=True)
    chosen, seeds = chosen_traces(options, traces, codecs), seeds_of(options, codecs)
    run_both(options, folder, chosen, condition, codecs, seeds=seeds, seconds=seconds_of(codecs))
    return folder


def chosen_traces(options: argparse.Namespace, traces: Sequence[str], codecs: Sequence[str]) -> Sequence[str]:
    """The traces of a family that the budget includes."""
    return traces[: PIXEL_TRACES if PIXELS in codecs else None if options.budget == "full" else FEW]


def seeds_of(options: argparse.Namespace, codecs: Sequence[str]) -> int:
    """Number of seeds."""
    seeds: int = options.seeds or (3 if options.budget == "full" and PIXELS not in codecs else 1)
    return seeds


def seconds_of(codecs: Sequence[str]) -> int:
    """Length of a call, seconds."""
    return 30 if PIXELS in codecs else 60


def run_both(  # noqa: PLR0913
    options: argparse.Namespace,
    folder: Path,
    traces: Sequence[str],
    condition: str,
    codecs: Sequence[str],
    *,
    seeds: int,
    seconds: float,
) -> None:
    """Runs a pair of sweeps: of the own controller, and of the others."""
    pixels = PIXELS in codecs
    common = ["--codecs", ",".join(codecs), "--seconds", f"{seconds:g}", "--seeds", f"1-{seeds}"]
    common += ["--clip", "generated:640x360@30" if pixels else "generated:1280x720@30", *CONDITIONS[condition]]
    common += ["--workers", str(options.workers), "--traces", *traces, *(["--fresh"] if options.fresh else [])]
    # Only the own controller takes a named model; the bound is the same for all.
    own = [*([] if pixels else ["--bound"]), *(["--model", str(options.model)] if options.model else [])]
    for part, controllers, more in (("own", (OWN,), own), ("others", OTHERS, [])):
        output = ["--output", str(folder / f"{part}.parquet")]
        run([lockstep_command(), "sweep", "--controllers", ",".join(controllers), *common, *more, *output])


def works(options: argparse.Namespace, judged: Mapping[str, Sequence[str]], plan: Sequence[Sweeps]) -> list[Work]:
    """All pairs of sweeps; short calls over one trace give the times. The command skips calls of an earlier run."""
    found = []
    for codecs in dict.fromkeys(codecs for _, _, codecs in plan):
        pairs = [(condition, judged[family]) for condition, family, of_codecs in plan if of_codecs == codecs]
        condition, traces = pairs[0]
        calls = sum(len(chosen_traces(options, of_family, codecs)) for _, of_family in pairs) * seeds_of(
            options, codecs
        )

        def one() -> None:
            with tempfile.TemporaryDirectory() as folder:
                run_both(options, Path(folder), traces[:1], condition, codecs, seeds=1, seconds=TRIED_SECONDS)  # noqa: B023

        seconds = timed(one, TRIED_SECONDS / seconds_of(codecs)) * calls / len(pairs)
        found.append(Work(f"pairs of sweeps with {', '.join(codecs)}", len(pairs), seconds))
    return found


def run(command: Sequence[str]) -> None:
    """Runs a sweep, which shows its progress on standard error.

    Raises:
        ValueError: If it fails; it has printed the reason.

    """
    done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)  # noqa: S603
    if done.returncode != 0:
        raise ValueError(f"a sweep failed with status {done.returncode}; its error is above")


def calls_of(folder: Path) -> polars.DataFrame:
    """The calls of the sweeps in ``folder``."""
    columns = ["controller", "codec", *SCORES.values()]
    parts = [polars.read_parquet(folder / f"{part}.parquet").select(columns) for part in ("own", "others")]
    return polars.concat(parts, how="vertical_relaxed")


def main(arguments: list[str] | None = None) -> int:
    """Runs the study; returns the exit status."""
    options = parser().parse_args(arguments)
    full = options.budget == "full"
    judged = families(options.split)
    study = Study("lockstep", options.output)
    plan: list[Sweeps] = [
        # With a small budget the conventional codec runs without loss only, because retransmissions take longer to
        # simulate.
        (condition, family, (MODELLED, CONVENTIONAL) if full or condition == CLEAN else (MODELLED,))
        for condition in CONDITIONS
        for family in judged
    ]
    plan += [(CLEAN, family, (PIXELS,)) for family in judged] if full else []
    parts, clean = [], []
    study.announce(works(options, judged, plan))
    began = time.monotonic()
    for count, (condition, family, codecs) in enumerate(plan, 1):
        folder = sweep(options, family, judged[family], condition, codecs)
        left = time_left(time.monotonic() - began, count, len(plan))
        print(f"study lockstep: {count} of {len(plan)} pairs of sweeps, {left}", file=sys.stderr)
        found = table(calls_of(folder))
        for (codec,), rows in found.group_by("codec", maintain_order=True):
            study.report(words(f"{family}, {condition}, {codec}", rows))
        parts.append(found.with_columns(family=polars.lit(family), condition=polars.lit(condition)))
        if condition == CLEAN:
            clean += [folder / "own.parquet", folder / "others.parquet"]
    rows = polars.concat(parts, how="diagonal_relaxed")
    over = means(rows)
    study.report(words(f"{ALL_FAMILIES}, {CLEAN}, {MODELLED}", over))
    measure = MEASURES["ssim"]
    plot = chart(joined(clean, measure), measure)
    study.write("lockstep", polars.concat([rows, over], how="diagonal_relaxed"), {CLEAN: plot})
    return 0


if __name__ == "__main__":
    sys.exit(main())
