"""BoB, its heuristic, Gemini and HRCC on profiles like those of BoB's paper, and the effect of its threshold.

BoB (IEEE TMM 2022) compares estimators on network profiles with five runs each. Its measures are accuracy and sMAPE of
the estimates, receive rate, delay, loss, and network, video and total scores. It also compares thresholds of the
adaptive selector from 5 to 50 %. This study repeats both with the shipped estimators, or those of ``--models``. The
profiles are generated (:mod:`lockstep.studies.bob_profiles`) unless ``--profiles`` names a folder of published ones. No
model was trained on either.

All calls have the paper's size and rate, 640x360 at 24 frames per second. The profiles have a quarter of their rates,
so that their mean rates are the printed ones. With ``--budget small`` calls are modelled. Modelled calls have no
pictures, so VMAF is computed from SSIM: with a line fitted to a few calls with pictures, which run first. With the
other budgets all calls are coded, with measured VMAF. Both require an ffmpeg with libvmaf, which ``LOCKSTEP_VMAF``
names. Without it, the study compares network scores.

``--as-published`` adds BoB and its heuristic as the paper prints them. ``--estimators`` adds published ones, such as
those of BoB's repository. The part ``online`` (:mod:`lockstep.studies.bob_online`) trains BoB as published, and
measures the time until its learned half decides.
"""

import argparse
import importlib.util
import json
import math
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars

from lockstep.argument_types import whole
from lockstep.content_hash import content_hash, program_hash, tree_hash
from lockstep.distribution import install_command, install_command_for
from lockstep.learn.arguments import SECONDS
from lockstep.module_command import ArgumentParser, print_text
from lockstep.simulation import simulate
from lockstep.studies.bob_profiles import PROFILES, PUBLISHED, generated
from lockstep.studies.printed import PaperFigure, best_row, comparison, row_mean
from lockstep.study import (
    BUDGETS,
    FINISHED,
    PAPER_BUDGETS,
    TRIED_SECONDS,
    Cell,
    Study,
    Work,
    add_arguments,
    chart,
    summary,
    timed,
    words,
)

ESTIMATORS = ("bob", "bob-heuristic", "gemini", "hrcc")
PRINTED = ("bob-printed", "bob-heuristic-printed")
"""BoB and its heuristic as the paper prints them."""
CLIP = "generated:640x360@24"
"""Size and frame rate of the paper's clip, Big Buck Bunny."""
RATES = 0.25
"""Share of the rates of the profiles' files in the paper: their mean rates are the printed ones."""
EPISODES = {"small": 20, "full": 500, "paper": 2_000}
"""Calls of the online training, by budget; the paper trains for 2,000 and converges after 500."""
WINDOWS, INTERVAL_SECONDS = 4_000, 0.2
"""Decisions of an update of that training, and the time between two."""
ONLINE_SECONDS = 0.6
"""Estimated time of an episode of that training on one core, seconds."""
POINTS = 30
"""Points of the curve of an online training, at most."""
ONLINE_THRESHOLD = 0.3
"""Threshold of the selector in the part online, the paper's."""
LEARNED = ("bob", "gemini", "hrcc")
THRESHOLDS = (5, 10, 15, 20, 25, 30, 35, 40, 45, 50)
"""Thresholds of the selector, percent."""
VIDEO_WEIGHT = 0.3
VIDEO_RATES = ("100kbps", "200kbps", "400kbps", "800kbps", "1600kbps", "3200kbps")
"""Rates of the calls with pictures that relate VMAF to SSIM."""
VIDEO_SECONDS = 6.0
"""Length of these calls, seconds."""
MEASURES = (
    "accuracy",
    "smape",
    "rate_score",
    "delay_score",
    "loss_score",
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
    "smape": 2,
    "rate_score": 1,
    "delay_score": 1,
    "loss_score": 1,
    "receive_mbps": 2,
    "delay_ms": 0,
    "loss": 2,
    "network_bob": 1,
    "vmaf": 1,
    "total_bob": 1,
    "total_challenge": 1,
}
"""Columns of the tables with their digits.

Accuracy, loss, and the scores of rate, delay and loss are in percent. sMAPE is 0 to 2. The network score has 70 points,
VMAF and totals have 100.
"""
ONLINE = {"hand_over_s": 1, "learned_percent": 1, "handed_over": 2}
"""Columns of the table of hand-overs: seconds, percent of the decisions, share of the calls."""
DRAWN = {"total_bob": "total score (BoB's weights)", "receive_mbps": "receive rate, Mb/s", "delay_ms": "delay, ms"}
OF_VMAF = ("vmaf", "total_challenge", "total_bob")
"""Measures that require VMAF."""
DRAWN_WITHOUT_VMAF = {"network_bob": "network score (BoB's weights)", **DRAWN}
ACCURACY = {
    "cascade_profile": 84.89,
    "lte_profile": 78.94,
    "twitch_profile": 88.84,
    "FCCamazone": 86.6,
    "Synthtic": 65.88,
}
"""BoB's prediction accuracy, percent, by profile (table III)."""
FIGURES = (
    *(
        PaperFigure(
            "estimators",
            f"BoB's accuracy on {profile}",
            f"{accuracy} %",
            "BoB, IEEE TMM 2022, table III",
            row_mean("accuracy", 1, "%", profile=profile, estimator="bob"),
            "The paper's calls are AlphaRTC's.",
        )
        for profile, accuracy in ACCURACY.items()
    ),
    PaperFigure(
        "thresholds",
        "best threshold, of 5 to 50 %",
        "30 %",
        "BoB, IEEE TMM 2022; and the paper's code",
        best_row(("total_bob", "network_bob"), "threshold", "%"),
        "The shipped net was trained with 30 %. Thresholds have no effect on estimates near the heuristic's.",
    ),
    PaperFigure(
        "online",
        "time under the heuristic at the start of a session",
        "at most 10 to 15 s",
        "BoB, IEEE TMM 2022, section III-F",
        row_mean("hand_over_s", 1, "s", estimator="bob-printed"),
        "The centre of the lowest range is 1.005 Mb/s. If the heuristic's estimate is below 0.74 Mb/s, the selector "
        "takes that. Calls without a hand-over count with their whole length.",
    ),
    PaperFigure(
        "convergence",
        "episodes until convergence",
        "500",
        "BoB, IEEE TMM 2022, section III-F",
        row_mean("episodes", 0, "episodes"),
        "Converged: the gain over the heuristic in test calls stays near its final mean.",
    ),
)
"""Figures of BoB's paper; for its estimators the accuracy."""


def vmaf_instructions() -> str:
    """The shell commands that make VMAF available."""
    program = f"$({shlex.quote(sys.executable)} -c 'import imageio_ffmpeg; print(imageio_ffmpeg.get_ffmpeg_exe())')"
    return f"{install_command_for(['imageio-ffmpeg'])} and set its ffmpeg: export LOCKSTEP_VMAF={program}"


def vmaf_program() -> str:
    """Hash of the program that measures VMAF; empty without one."""
    found = shutil.which(os.environ.get("LOCKSTEP_VMAF") or "ffmpeg")
    return "" if found is None else content_hash(Path(found))


def vmaf_missing() -> str | None:
    """The reason why VMAF cannot be measured; None if it can."""
    scores = simulate("constant:1mbps", clip="generated:176x144", seconds=0.2, vmaf=True).scores
    if scores["vmaf"] is not None:
        return None
    # The study prints its own advice.
    why, _, _ = str(scores["vmaf_missing"]).partition(";")
    return why.removeprefix("no VMAF: ")


def measured_vmaf(scores: Mapping[str, Any]) -> float:
    """The measured VMAF.

    Raises:
        ValueError: If it was not measured.

    """
    if scores["vmaf"] is None:
        message = f"cannot measure VMAF: {scores['vmaf_missing']}"
        raise ValueError(message)
    return float(scores["vmaf"])


def vmaf_cells() -> list[Cell]:
    """The coded calls that relate VMAF to SSIM."""
    common = {"program": program_hash(), "vmaf": vmaf_program()}
    return [{"part": "video", "rate": rate, "seed": seed, **common} for rate in VIDEO_RATES for seed in (1, 2)]


def measured_pictures(cell: Cell, seconds: float = VIDEO_SECONDS) -> Mapping[str, float]:
    """SSIM and VMAF of one of these calls."""
    scores = simulate(
        "constant:6mbps",
        controller=f"fixed:{cell['rate']}",
        codec="conventional",
        clip="generated:640x360",
        seconds=seconds,
        seed=cell["seed"],
        vmaf=True,
    ).scores
    return {"ssim_db": scores["ssim_db"]["mean"], "vmaf": measured_vmaf(scores)}


def vmaf_line(study: Study) -> tuple[float, float]:
    """Slope and offset of the line from SSIM (dB) to VMAF, fitted to a few coded calls."""
    table = study.run(vmaf_cells(), measured_pictures, 1)
    known = table.filter(polars.col("vmaf") < 99.9)
    ssim, vmaf = known["ssim_db"].to_numpy(), known["vmaf"].to_numpy()
    slope, height = (float(value) for value in np.polyfit(ssim, vmaf, 1))
    wrong = float(np.sqrt(np.mean((slope * ssim + height - vmaf) ** 2)))
    print(f"VMAF of calls without pictures: {height:.1f} + {slope:.2f} * SSIM (dB), RMS error {wrong:.1f}\n")
    return slope, height


def scores_of(scores: Mapping[str, Any], line: tuple[float, float] | None) -> dict[str, float | None]:
    """Scores of a call that the study keeps; VMAF from the ``line`` if given, otherwise the measured one."""
    network = scores["network"]
    vmaf = scores.get("vmaf")
    if line is not None:
        vmaf = min(max(line[0] * scores["ssim_db"]["mean"] + line[1], 0.0), 100.0)
    return {
        "accuracy": 100.0 * (scores["estimate_accuracy"] or 0.0),
        "smape": scores["estimate_smape"],
        "rate_score": 100.0 * network["rate"],
        "delay_score": 100.0 * network["delay"],
        "loss_score": 100.0 * (1.0 - network["loss"]),
        "receive_mbps": scores["throughput_bps"] / 1e6,
        "delay_ms": scores["one_way_delay_ms"]["mean"],
        "loss": 100.0 * network["loss"],
        "network_challenge": network["challenge"],
        "network_bob": network["bob"],
        "vmaf": vmaf,
        "total_challenge": None if vmaf is None else network["challenge"] + VIDEO_WEIGHT * vmaf,
        "total_bob": None if vmaf is None else network["bob"] + VIDEO_WEIGHT * vmaf,
        "p95_ms": scores["video_delay_ms"]["p95"],
    }


def model_with(model: Path, threshold: int, folder: Path) -> Path:
    """A copy of the model with another threshold of the selector."""
    import onnx  # noqa: PLC0415 -- of the extra `learn`

    path = folder / f"bob-{threshold}.onnx"
    if not path.exists():
        try:
            changed = onnx.load(str(model))
        except Exception as error:  # any type: protobuf has its own
            raise ValueError(f"{model}: truncated or invalid ONNX file ({error})") from error
        for entry in changed.metadata_props:
            if entry.key == "lockstep.selector_threshold":
                entry.value = str(threshold / 100)
        onnx.save(changed, str(path))
    return path


def trace_of(options: argparse.Namespace, profile: str) -> Path | str:
    """The file of a profile at the paper's rates, or the text of a generated one."""
    if options.profiles is None:
        return generated(profile, RATES)
    path: Path = options.profiles / file_of(profile)
    return path


def file_of(profile: str) -> str:
    """The name of the published file of a profile at the paper's rates."""
    return f"{profile}_x{RATES:g}"


def is_coded(options: argparse.Namespace) -> bool:
    """Whether the budget has calls with pictures."""
    return bool(options.budget != BUDGETS[0])


def name_of(options: argparse.Namespace, profile: str) -> str:
    """The name of a profile in tables."""
    return f"{profile}, generated" if options.profiles is None else profile


def run_call(
    cell: Cell,
    options: argparse.Namespace,
    line: tuple[float, float] | None,
    model: Path | None,
    seconds: float | None = None,
) -> Any:
    """The scores of one call, which lasts ``seconds`` if given."""
    real = is_coded(options)
    file = files_of(options).get(cell["estimator"])
    scores = simulate(
        trace_of(options, cell["profile"].partition(",")[0]),
        controller=cell["estimator"] if file is None else None,
        estimator=file,
        codec=cell["codec"],
        modelled=not real,
        clip=options.clip,
        seconds=seconds or options.seconds,
        seed=cell["seed"],
        model=model,
        vmaf=real,
    ).scores
    return scores_of(scores, line)


def cells_of(
    options: argparse.Namespace,
    line: tuple[float, float] | None,
    part: str,
    settings: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Each of ``settings`` with every profile, codec and seed.

    They have the ``estimator`` and the hash of its ``model``, which is empty for the shipped one.
    """
    real = is_coded(options)
    clip = Path(options.clip)
    common = {
        "budget": options.budget,
        "seconds": options.seconds,
        "clip": content_hash(clip) if clip.is_file() else options.clip,
        "program": program_hash(),
        "vmaf_by": vmaf_program() if real else "" if line is None else f"{line[0]!r} {line[1]!r}",
    }
    traces = {profile: trace_of(options, profile) for profile in options.chosen}
    # The text of a generated profile identifies it.
    hashes = {name: trace if isinstance(trace, str) else content_hash(trace) for name, trace in traces.items()}
    return [
        {
            "part": part,
            **setting,
            "profile": name_of(options, profile),
            "trace": hashes[profile],
            "codec": codec,
            "seed": seed,
            **common,
        }
        for setting in settings
        for codec in options.codecs
        for profile in options.chosen
        for seed in range(1, options.seeds + 1)
    ]


def model_of(options: argparse.Namespace, estimator: str) -> Path | None:
    """The model of an estimator: that in ``--models``, or trained as published. None for none or the shipped one."""
    if estimator == PRINTED[0]:
        trained: Path = options.published
        return trained
    return options.models / f"{estimator}.onnx" if options.models and estimator in LEARNED else None


def files_of(options: argparse.Namespace) -> dict[str, Path]:
    """The estimators of ``--estimators``, by their names in tables."""
    return {str(path): path for path in options.estimators}


def rows_of(options: argparse.Namespace) -> tuple[str, ...]:
    """The estimators of part one."""
    return (*ESTIMATORS, *(PRINTED if options.as_published else ()), *files_of(options))


def identity_of(options: argparse.Namespace, estimator: str) -> str:
    """Hash of an estimator's model, or of the folder of its file; empty for those of the program."""
    file = files_of(options).get(estimator)
    if file is not None:
        return tree_hash(file if file.is_dir() else file.parent)
    if estimator == PRINTED[0]:
        return published_run(options)[0]
    model = model_of(options, estimator)
    return "" if model is None else content_hash(model)


def published_run(options: argparse.Namespace) -> tuple[str, list[str]]:
    """Folder and arguments of the training of BoB as published."""
    words = ["--as-published", "--episodes", str(options.episodes), "--call-seconds", str(options.seconds)]
    updates = max(1, round(options.episodes * options.seconds / INTERVAL_SECONDS / WINDOWS))
    words += ["--round", str(max(1, updates // POINTS)), "--seed", "1", "--threads", "1", "--device", "cpu"]
    words += ["--judged", "0"]
    name = f"bob-as-published-episodes={options.episodes}-seconds={options.seconds:g}"
    return f"{name}-program={program_hash()[:12]}", words


def estimator_cells(options: argparse.Namespace, line: tuple[float, float] | None) -> list[dict[str, Any]]:
    """The calls of part one."""
    settings = [{"estimator": name, "model": identity_of(options, name)} for name in rows_of(options)]
    return cells_of(options, line, "estimators", settings)


def threshold_cells(options: argparse.Namespace, line: tuple[float, float] | None) -> list[dict[str, Any]]:
    """The calls of part two."""
    known = content_hash(threshold_model(options))
    settings = [{"threshold": threshold, "estimator": "bob", "model": known} for threshold in THRESHOLDS]
    return cells_of(options, line, "thresholds", settings)


def threshold_model(options: argparse.Namespace) -> Path:
    """BoB's model, whose threshold part two changes."""
    shipped = Path(__file__).parents[1] / "learn" / "models"
    model: Path = (options.models or shipped) / "bob.onnx"
    return model


def online_cells(options: argparse.Namespace, _line: tuple[float, float] | None) -> list[dict[str, Any]]:
    """The calls of part three; they are modelled whatever the budget."""
    return [
        {
            "part": "online",
            "estimator": name,
            "model": identity_of(options, name),
            "profile": name_of(options, profile),
            "trace": str(trace_of(options, profile)),
            "seconds": options.seconds,
            "seed": seed,
            "program": program_hash(),
        }
        for name in (PRINTED[0], "bob")
        for profile in options.chosen
        for seed in range(1, options.seeds + 1)
    ]


CELLS = {"estimators": estimator_cells, "thresholds": threshold_cells, "online": online_cells}
"""The calls of each part."""


def works(
    study: Study, options: argparse.Namespace, line: tuple[float, float] | None, *, fits_line: bool
) -> list[Work]:
    """All that the study is about to run; one short call of each kind gives the times."""
    found = []
    if fits_line:
        video = study.unfinished(vmaf_cells())
        tried = timed(lambda: measured_pictures(video[0], TRIED_SECONDS), TRIED_SECONDS / VIDEO_SECONDS)
        found.append(Work("calls that relate VMAF to SSIM", len(video), tried))
    if needs_training(options) and not is_trained(study, options):
        found.append(Work("training of BoB as published", 1, ONLINE_SECONDS * options.episodes))
    parts = [part for part in options.parts if part != "online"]
    cells = study.unfinished([cell for part in parts for cell in CELLS[part](options, line)])
    # Modelled calls are too fast for a shorter trial.
    length = min(TRIED_SECONDS, options.seconds) if is_coded(options) else options.seconds
    for codec in options.codecs:
        of_codec = [cell for cell in cells if cell["codec"] == codec]
        if of_codec:
            first = next((cell for cell in of_codec if cell["estimator"] != PRINTED[0]), of_codec[0])
            model = None if first["estimator"] == PRINTED[0] else model_of(options, first["estimator"])
            seconds = timed(lambda: run_call(first, options, line, model, length), length / options.seconds)  # noqa: B023
            what = f"calls of {options.seconds:.0f} s with the {codec} codec"
            found.append(Work(what, len(of_codec), seconds, options.workers))
    return found


def estimators(study: Study, options: argparse.Namespace, line: tuple[float, float] | None) -> None:
    """Part one: the estimators compared with each other."""
    models = {name: model_of(options, name) for name in rows_of(options)}
    cells = estimator_cells(options, line)
    table = study.run(cells, lambda cell: run_call(cell, options, line, models[cell["estimator"]]), options.workers)
    study.report(f"{heading_of('estimators', options)}\n")
    measures, shown, drawn = measured(table)
    for codec in options.codecs:
        of_codec = table.filter(polars.col("codec") == codec)
        study.report(f"{codec} codec, means over all profiles:")
        study.report(words(summary(of_codec, ("estimator",), measures), ("estimator",), shown, {}))
        by = ("estimator", "profile")
        study.report(words(summary(of_codec, by, measures), by, shown, {}))
        score = "total" if "total_bob" in measures else "network score"
        ahead = ahead_of_heuristic(of_codec, "total_bob" if "total_bob" in measures else "network_bob")
        won = sum(gain > 0 for gain in ahead.values())
        gains = "; ".join(f"{profile} {gain:+.1f}" for profile, gain in ahead.items())
        study.report(f"BoB's {score} is above its heuristic's on {won} of {len(ahead)} profiles: {gains}\n")
    means = summary(table.filter(polars.col("codec") == options.codecs[0]), ("profile", "estimator"), measures)
    # The paper's figures are for its own profiles.
    if options.profiles is not None:
        study.report(comparison(FIGURES, "estimators", means, "BoB"))
    kind = "Generated" if options.profiles is None else "BoB's"
    title = f"{kind} profiles, budget {options.budget}"
    study.write("estimators", table, {"estimators": chart(means, ("profile", "estimator"), drawn, title)})


def measured(table: polars.DataFrame) -> tuple[list[str], dict[str, int], dict[str, str]]:
    """Measures that all calls of ``table`` have; those in tables with digits; those in charts with units."""
    without = OF_VMAF if table["vmaf"].null_count() else ()
    shown = {name: digits for name, digits in SHOWN.items() if name not in without}
    drawn = {name: unit for name, unit in (DRAWN_WITHOUT_VMAF if without else DRAWN).items() if name not in without}
    return [name for name in MEASURES if name not in without], shown, drawn


def heading_of(part: str, options: argparse.Namespace) -> str:
    """A line on the calls of a part and its budget."""
    kind = f"generated profiles ({PUBLISHED})" if options.profiles is None else "profiles"
    calls = f"{options.seeds} runs of {options.seconds:.0f} s on {len(options.chosen)} {kind}"
    return f"{part}, budget {options.budget}: {calls}"


def ahead_of_heuristic(table: polars.DataFrame, score: str) -> dict[str, float]:
    """Difference of BoB's mean ``score`` from its heuristic's, by profile."""
    means = table.group_by("profile", "estimator", maintain_order=True).agg(polars.col(score).mean())
    known = {(row["profile"], row["estimator"]): row[score] for row in means.iter_rows(named=True)}
    profiles = table["profile"].unique(maintain_order=True)
    return {profile: known[profile, "bob"] - known[profile, "bob-heuristic"] for profile in profiles}


def thresholds(study: Study, options: argparse.Namespace, line: tuple[float, float] | None) -> None:
    """Part two: thresholds of the selector."""
    model = threshold_model(options)
    folder = study.folder / "thresholds"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for threshold in THRESHOLDS:
        model_with(model, threshold, folder)
    cells = threshold_cells(options, line)
    table = study.run(
        cells, lambda cell: run_call(cell, options, line, folder / f"bob-{cell['threshold']}.onnx"), options.workers
    )
    measures, shown, drawn = measured(table)
    means = summary(table.filter(polars.col("codec") == options.codecs[0]), ("threshold",), measures)
    study.report(f"{heading_of('thresholds', options)}; threshold of the selector (%), {options.codecs[0]} codec\n")
    study.report(words(means, ("threshold",), shown, {}))
    study.report(comparison(FIGURES, "thresholds", means, "BoB"))
    title = f"Threshold of the selector, budget {options.budget}"
    study.write("thresholds", table, {"thresholds": chart(means, ("threshold",), drawn, title)})


def online(study: Study, options: argparse.Namespace, line: tuple[float, float] | None) -> None:
    """Part three: training of BoB as published, and the time until the learned half decides."""
    from lockstep.studies.bob_online import converged_after, hand_over  # noqa: PLC0415 -- requires PyTorch

    models = {PRINTED[0]: options.published, "bob": threshold_model(options)}

    def measured_call(cell: Cell) -> dict[str, Any]:
        name = cell["estimator"]
        return hand_over(
            models[name],
            cell["trace"],
            as_published=name == PRINTED[0],
            threshold=ONLINE_THRESHOLD,
            seconds=options.seconds,
            seed=cell["seed"],
        )

    table = study.run(online_cells(options, line), measured_call, options.workers)
    study.report(f"{heading_of('online', options)}; BoB as published trained for {options.episodes} episodes\n")
    for by in (("estimator",), ("estimator", "profile")):
        study.report(words(summary(table, by, list(ONLINE)), by, ONLINE, {}))
    means = summary(table, ("estimator",), list(ONLINE))
    study.report(comparison(FIGURES, "online", means, "BoB"))
    card = json.loads(options.published.with_suffix(".json").read_bytes())
    updates = converged_after([(int(step), float(value)) for step, value in card["curves"]["gain over the heuristic"]])
    if updates is None:
        study.report(f"The gain of the training has not converged in {options.episodes} episodes.\n")
    else:
        episodes = updates * WINDOWS * INTERVAL_SECONDS / options.seconds
        row = polars.DataFrame([{"episodes": episodes, "episodes_half": math.nan}])
        study.report(comparison(FIGURES, "convergence", row, "BoB"))
        row.write_parquet(study.folder / "convergence.parquet")
    study.write("online", table)


def needs_training(options: argparse.Namespace) -> bool:
    """Whether a part requires the training of BoB as published."""
    return "online" in options.parts or (options.as_published and "estimators" in options.parts)


def is_trained(study: Study, options: argparse.Namespace) -> bool:
    """Whether that training is finished."""
    return bool((study.folder / "runs" / published_run(options)[0] / FINISHED).exists())


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = ArgumentParser(prog="lockstep study bob", description=(__doc__ or "").partition("\n")[0])
    add_arguments(made, "bob", PAPER_BUDGETS)
    made.add_argument(
        "--parts",
        nargs="+",
        choices=tuple(CELLS),
        default=("estimators", "thresholds"),
        help="parts to run; online requires the extra `learn` (default: estimators thresholds)",
    )
    made.add_argument(
        "--as-published",
        action="store_true",
        help="add BoB, trained as published, and its heuristic as printed; requires the extra `learn`",
    )
    made.add_argument(
        "--estimators",
        nargs="+",
        type=Path,
        default=(),
        metavar="FILE",
        help="add estimators written for AlphaRTC, such as the published Gemini and HRCC",
    )
    made.add_argument(
        "--episodes",
        type=whole(1),
        metavar="COUNT",
        help="calls to train BoB as published from (20; full: 500; paper: 2000)",
    )
    made.add_argument("--clip", default=CLIP, metavar="CLIP", help="source of the pictures (%(default)s)")
    made.add_argument(
        "--profiles",
        type=Path,
        default=None,
        metavar="DIR",
        help=f"folder of BoB's published profiles ({', '.join(map(file_of, PROFILES))}); default: generated "
        f"links of the same kind: {PUBLISHED}",
    )
    made.add_argument(
        "--models",
        type=Path,
        metavar="DIR",
        help="folder of bob.onnx, gemini.onnx, hrcc.onnx (default: the shipped ones)",
    )
    made.add_argument(
        "--codecs", nargs="+", choices=("conventional", "functional"), default=("conventional", "functional")
    )
    made.add_argument("--seconds", type=SECONDS, default=60.0, help="length of a call, seconds (%(default)s)")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Runs the study; returns the exit status."""
    options = parser().parse_args(arguments)
    options.seeds = options.seeds or 5
    options.chosen = [
        profile for profile in PROFILES if options.profiles is None or (options.profiles / file_of(profile)).exists()
    ]
    if not options.chosen:
        wanted = ", ".join(map(file_of, PROFILES))
        raise ValueError(f"no profile of BoB's paper in {options.profiles} ({wanted}); {PUBLISHED}")
    if options.profiles is None:
        print(f"using generated profiles similar to BoB's; {PUBLISHED}", file=sys.stderr)
    for profile in PROFILES:
        if profile not in options.chosen:
            print_text(f"skipped {file_of(profile)}: no such file in {options.profiles}")
    # Report missing models before any call, whatever results the folder has.
    for name in LEARNED if "estimators" in options.parts else ("bob",):
        model = model_of(options, name)
        if model is not None:
            content_hash(model)
    for file in options.estimators:
        tree_hash(file)
    options.episodes = options.episodes or EPISODES[options.budget]
    if needs_training(options) and importlib.util.find_spec("torch") is None:
        raise ValueError(f"BoB as published requires PyTorch; install it with: {install_command('learn')}")
    missing = vmaf_missing()
    if missing is not None:
        print(f"no VMAF and no total scores ({missing}); to get them: {vmaf_instructions()}", file=sys.stderr)
    study = Study("bob", options.output, fresh=options.fresh)
    requires_line = not is_coded(options) and missing is None
    fits_line = requires_line and bool(study.unfinished(vmaf_cells()))
    line = vmaf_line(study) if requires_line and not fits_line else None
    study.announce(works(study, options, line, fits_line=fits_line))
    line = vmaf_line(study) if fits_line else line
    if needs_training(options):
        options.published = study.train("bob", *published_run(options))
    for part in options.parts:
        {"estimators": estimators, "thresholds": thresholds, "online": online}[part](study, options, line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
