"""BoB beside its heuristic, Gemini and HRCC on the profiles of its paper, and what its selector's threshold does.

BoB (IEEE TMM 2022) compares accuracy and sMAPE of the estimates, receive rate, delay, loss, and network, video and
total scores on network profiles, five runs each, and thresholds of the adaptive selector from 5 to 50 %. This does
the same with the estimators that come with Lockstep, or those that ``--models`` has. No model was trained on these
profiles.

With ``--budget small`` calls are modelled, 1280x720 over the profiles as they are; they have no pictures, so that
VMAF is worked out from SSIM: a line through a few calls with pictures, which are run first. With ``--budget full``
all calls are coded: 640x360 over the profiles with a quarter of the rates, and VMAF measured (``LOCKSTEP_VMAF`` names
an ffmpeg that can).
"""

import argparse
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars

from lockstep.simulation import simulate
from lockstep.studies.study import BUDGETS, Cell, Study, add_arguments, chart, say, summary

PROFILES = ("FCCamazone", "NYUbus", "Synthtic", "cascade_profile", "lte_profile", "twitch_profile")
"""Files with BoB's profiles; the paper's text has five, of which one is made up."""
ESTIMATORS = ("bob", "bob-heuristic", "gemini", "hrcc")
LEARNED = ("bob", "gemini", "hrcc")
THRESHOLDS = (5, 10, 15, 20, 25, 30, 35, 40, 45, 50)
"""Of the selector, percent."""
VIDEO_WEIGHT = 0.3
VIDEO_RATES = ("100kbps", "200kbps", "400kbps", "800kbps", "1600kbps", "3200kbps")
"""At which a few seconds are coded, so that VMAF can be worked out from SSIM."""
MEASURES = (
    "accuracy",
    "smape",
    "receive_mbps",
    "delay_ms",
    "loss",
    "network_challenge",
    "network_bob",
    "vmaf",
    "total_challenge",
    "total_bob",
    "p95_ms",
)
SHOWN = {
    "accuracy": 1,
    "smape": 1,
    "receive_mbps": 2,
    "delay_ms": 0,
    "loss": 2,
    "network_bob": 1,
    "vmaf": 1,
    "total_bob": 1,
    "total_challenge": 1,
}
"""What the tables show, with digits: accuracy, sMAPE and loss in percent, scores of 70, 100 and 100 points."""
DRAWN = {"total_bob": "total score (BoB's weights)", "receive_mbps": "receive rate, Mb/s", "delay_ms": "delay, ms"}


def vmaf_line(study: Study) -> tuple[float, float]:
    """Slope and height of the line from SSIM (dB) to VMAF, through a few coded calls."""
    cells = [{"part": "video", "rate": rate, "seed": seed} for rate in VIDEO_RATES for seed in (1, 2)]

    def measure(cell: Cell) -> Mapping[str, float]:
        scores = simulate(
            "constant:6mbps",
            controller=f"fixed:{cell['rate']}",
            codec="conventional",
            clip="generated:640x360",
            seconds=6.0,
            seed=cell["seed"],
            vmaf=True,
        ).scores
        if scores["vmaf"] is None:
            message = f"VMAF cannot be measured: {scores['vmaf_missing']}"
            raise ValueError(message)
        return {"ssim_db": scores["ssim_db"]["mean"], "vmaf": scores["vmaf"]}

    table = study.run(cells, measure, 1)
    known = table.filter(polars.col("vmaf") < 99.9)
    ssim, vmaf = known["ssim_db"].to_numpy(), known["vmaf"].to_numpy()
    slope, height = (float(value) for value in np.polyfit(ssim, vmaf, 1))
    wrong = float(np.sqrt(np.mean((slope * ssim + height - vmaf) ** 2)))
    print(f"VMAF of calls without pictures: {height:.1f} + {slope:.2f} * SSIM (dB), within {wrong:.1f} (r.m.s.)\n")
    return slope, height


def scores_of(scores: Mapping[str, Any], line: tuple[float, float] | None) -> dict[str, float | None]:
    """What the study keeps of a call."""
    network = scores["network"]
    if line is None:
        vmaf = scores["vmaf"]
        if vmaf is None:
            message = f"VMAF cannot be measured: {scores['vmaf_missing']}"
            raise ValueError(message)
    else:
        vmaf = min(max(line[0] * scores["ssim_db"]["mean"] + line[1], 0.0), 100.0)
    return {
        "accuracy": 100.0 * (scores["estimate_accuracy"] or 0.0),
        "smape": scores["estimate_smape_percent"],
        "receive_mbps": scores["throughput_bps"] / 1e6,
        "delay_ms": scores["one_way_delay_ms"]["mean"],
        "loss": 100.0 * network["loss"],
        "network_challenge": network["challenge"],
        "network_bob": network["bob"],
        "vmaf": vmaf,
        "total_challenge": network["challenge"] + VIDEO_WEIGHT * vmaf,
        "total_bob": network["bob"] + VIDEO_WEIGHT * vmaf,
        "p95_ms": scores["video_delay_ms"]["p95"],
    }


def model_with(model: Path, threshold: int, folder: Path) -> Path:
    """The same model, which says another threshold of the selector."""
    import onnx  # noqa: PLC0415 -- of the extra `learn`

    path = folder / f"bob-{threshold}.onnx"
    if not path.exists():
        changed = onnx.load(str(model))
        for entry in changed.metadata_props:
            if entry.key == "lockstep.selector_threshold":
                entry.value = str(threshold / 100)
        onnx.save(changed, str(path))
    return path


def run_call(cell: Cell, options: argparse.Namespace, line: tuple[float, float] | None, model: Path | None) -> Any:
    """The scores of one call."""
    real = options.budget == BUDGETS[1]
    suffix = "_x0.25" if real else ""
    return scores_of(
        simulate(
            options.profiles / f"{cell['profile']}{suffix}",
            controller=cell["estimator"],
            codec=cell["codec"],
            modelled=not real,
            clip="generated:640x360@30" if real else "generated:1280x720@30",
            seconds=options.seconds,
            seed=cell["seed"],
            model=model,
            vmaf=real,
        ).scores,
        line,
    )


def cells_of(options: argparse.Namespace, part: str, name: str, values: Sequence[Any]) -> list[dict[str, Any]]:
    """Every value of ``name`` on every profile, with every codec and seed."""
    return [
        {
            "part": part,
            name: value,
            "profile": profile,
            "codec": codec,
            "estimator": value if name == "estimator" else "bob",
            "seed": seed,
            "budget": options.budget,
            "seconds": options.seconds,
            "models": str(options.models) if options.models else "",
        }
        for value in values
        for codec in options.codecs
        for profile in options.chosen
        for seed in range(1, options.seeds + 1)
    ]


def estimators(study: Study, options: argparse.Namespace, line: tuple[float, float] | None) -> None:
    """Part one: the estimators beside each other."""

    def model_of(name: str) -> Path | None:
        return options.models / f"{name}.onnx" if options.models and name in LEARNED else None

    cells = cells_of(options, "estimators", "estimator", ESTIMATORS)
    table = study.run(cells, lambda cell: run_call(cell, options, line, model_of(cell["estimator"])), options.workers)
    for codec in options.codecs:
        of_codec = table.filter(polars.col("codec") == codec)
        print(f"{codec} codec, means over all profiles:")
        say(summary(of_codec, ("estimator",), MEASURES), ("estimator",), SHOWN, {})
        by = ("estimator", "profile")
        say(summary(of_codec, by, MEASURES), by, SHOWN, {})
        ahead = ahead_of_heuristic(of_codec)
        won = sum(gain > 0 for gain in ahead.values())
        words = ", ".join(f"{profile} {gain:+.1f}" for profile, gain in ahead.items())
        print(f"BoB's total above its heuristic's on {won} of {len(ahead)} profiles: {words}\n")
    means = summary(table.filter(polars.col("codec") == options.codecs[0]), ("profile", "estimator"), MEASURES)
    study.write("estimators", table, {"estimators": chart(means, ("profile", "estimator"), DRAWN, "BoB's profiles")})


def ahead_of_heuristic(table: polars.DataFrame) -> dict[str, float]:
    """By how much BoB's mean total is above its heuristic's, by profile."""
    means = table.group_by("profile", "estimator", maintain_order=True).agg(polars.col("total_bob").mean())
    known = {(row["profile"], row["estimator"]): row["total_bob"] for row in means.iter_rows(named=True)}
    profiles = table["profile"].unique(maintain_order=True)
    return {profile: known[profile, "bob"] - known[profile, "bob-heuristic"] for profile in profiles}


def thresholds(study: Study, options: argparse.Namespace, line: tuple[float, float] | None) -> None:
    """Part two: thresholds of the selector."""
    shipped = Path(__file__).parents[1] / "learn" / "models"
    model = (options.models or shipped) / "bob.onnx"
    folder = study.folder / "thresholds"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for threshold in THRESHOLDS:
        model_with(model, threshold, folder)
    cells = cells_of(options, "thresholds", "threshold", THRESHOLDS)
    table = study.run(
        cells, lambda cell: run_call(cell, options, line, folder / f"bob-{cell['threshold']}.onnx"), options.workers
    )
    means = summary(table.filter(polars.col("codec") == options.codecs[0]), ("threshold",), MEASURES)
    print(f"threshold of the selector (%), {options.codecs[0]} codec; the paper takes 30 %:")
    say(means, ("threshold",), SHOWN, {"30": "best"})
    study.write("thresholds", table, {"thresholds": chart(means, ("threshold",), DRAWN, "Threshold of the selector")})


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = argparse.ArgumentParser(prog="lockstep study bob", description=(__doc__ or "").partition("\n")[0])
    add_arguments(made, "bob")
    made.add_argument("--parts", nargs="+", choices=("estimators", "thresholds"), default=("estimators", "thresholds"))
    made.add_argument(
        "--profiles",
        type=Path,
        default=Path("../shared/traces/bob-profiles"),
        metavar="DIR",
        help="folder with BoB's profiles (%(default)s)",
    )
    made.add_argument(
        "--models", type=Path, metavar="DIR", help="bob.onnx, gemini.onnx, hrcc.onnx; those shipped if not said"
    )
    made.add_argument(
        "--codecs", nargs="+", choices=("conventional", "functional"), default=("conventional", "functional")
    )
    made.add_argument("--seconds", type=float, default=60.0, help="length of a call (%(default)s)")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Runs the study; gives the exit status."""
    options = parser().parse_args(arguments)
    options.seeds = options.seeds or 5
    options.chosen = [profile for profile in PROFILES if (options.profiles / profile).exists()]
    if not options.chosen:
        message = (
            f"{options.profiles} has none of BoB's profiles ({', '.join(PROFILES)}); name their folder by --profiles"
        )
        raise ValueError(message)
    study = Study("bob", options.output, fresh=options.fresh)
    print(
        f"budget {options.budget}: {options.seeds} runs of {options.seconds:.0f} s on {len(options.chosen)} profiles\n"
    )
    line = vmaf_line(study) if options.budget == BUDGETS[0] else None
    for part in options.parts:
        (estimators if part == "estimators" else thresholds)(study, options, line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
