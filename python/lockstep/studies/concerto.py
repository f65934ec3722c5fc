"""Concerto: its observation about video, the effect of its imitation learning, and comparisons with other controllers.

Concerto (MobiCom 2019) observes that video gets less than a full-throttle source with the same control. It then
compares, on 3G, 4G and Wi-Fi:

- itself with rules and with reinforcement learning (RL-V);
- inputs of both layers with those of the transport;
- four losses, and training with and without smoothness;
- its network with a 1-D convolution and with dense layers;
- training and use on different access networks;
- the parameters of its imitation loop: the expert's share beta, loops L, epochs.

This study repeats them with modelled calls (``--real``: with the codec) on traces of fitted families. Training never
uses the seeds of these traces. It also compares Concerto's interval of a second with shorter ones. The observation
(``observation.py``) does not require PyTorch.

The losses are those of section 5.3. l1 is cross-entropy. l2 weights it by the squared distance (C = 0). l3 and l4 add
C = 100 and C = 8 on overshoot.

"Salsify" of the paper is a frame-level codec on GCC's transport: here the row ``gcc, functional codec``. With
``--as-published`` all trainings follow the paper (:mod:`lockstep.learn.concerto`), and RL-V is trained with Pensieve's
network.
"""

import argparse
import importlib.util
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars

from lockstep.argument_types import whole
from lockstep.content_hash import content_hash, program_hash
from lockstep.distribution import install_command
from lockstep.learn.arguments import SECONDS
from lockstep.learn.judging import CODECS, MEASURES, measure
from lockstep.module_command import ArgumentParser
from lockstep.studies.observation import observation
from lockstep.studies.observation import works as observation_works
from lockstep.studies.printed import Ours, PaperFigure, comparison
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

FAMILIES = {"3G": "umts", "4G": "lte", "Wi-Fi": "wifi"}
"""The paper's access networks, and the families of generated traces for them."""
SECONDS_OF_A_CALL = 60.0
"""Default length of a judging call, seconds."""
PAPER_SECONDS_OF_A_CALL = 1_800.0
"""The same in the paper's budget, seconds: 20 traces of a network have the paper's 10 h."""
TRIED_CALL_SECONDS = 4.0
"""Length of the calls of a trial training, seconds."""
PUBLISHED_LONGER = 5
"""Interval of the paper, one second, over that of the other trainings."""
RLV_SECONDS = 1_200.0
"""Estimated time of a full training of RL-V on one core, seconds."""
JUDGED_SEED = 900_000
"""First seed of the judging traces; training uses smaller ones."""
SHOWN = {"qoe_p": 2, "qoe_d": 2, "throughput_kbps": 0, "p95_ms": 0, "stall_minutes_per_hour": 1, "smoothness_kbps": 0}
"""Columns of the tables with their digits; the Parquet files have all `MEASURES`."""
DRAWN = {"qoe_d": "QoE_d", "throughput_kbps": "throughput, kb/s", "p95_ms": "video delay, p95, ms"}
RIVALS = ("gcc", "salsify", "rlv", "hindsight")
SYSTEMS = {
    "concerto": ("concerto", "conventional"),
    "gcc, conventional codec": ("gcc", "conventional"),
    "gcc, functional codec": ("gcc", "functional"),
    "rlv": ("rlv", "conventional"),
}
"""The systems of the paper's section 5.2: their controllers and codecs."""
THEIRS = {
    "concerto": "Concerto",
    "gcc, conventional codec": "WebRTC",
    "gcc, functional codec": "Salsify, on GCC's transport",
    "rlv": "RL-V",
}
"""The paper's names for them."""


def _stalls_relative_to_gcc(means: polars.DataFrame) -> str | None:
    """Concerto's stalls relative to GCC's with the conventional codec, as a mean over networks."""
    stalls = {
        name: means.filter(polars.col("controller") == name, polars.col("codec") == "conventional")[
            "stall_minutes_per_hour"
        ].mean()
        for name in ("concerto", "gcc")
    }
    own, gcc = stalls["concerto"], stalls["gcc"]
    if not isinstance(own, float) or not isinstance(gcc, float):
        return None
    share = f", {100.0 * own / gcc:.0f} % of them" if gcc > 0.0 else ""
    return f"{own:.1f} min/h, GCC {gcc:.1f}{share}"


def _gain_over(controller: str, codec: str) -> Ours:
    """Throughput of Concerto above another system's, as a mean over networks."""

    def find(means: polars.DataFrame) -> str | None:
        rates = [
            means.filter(polars.col("controller") == one, polars.col("codec") == kind)["throughput_kbps"].mean()
            for one, kind in (("concerto", "conventional"), (controller, codec))
        ]
        own, other = rates
        if not isinstance(own, float) or not isinstance(other, float) or other <= 0.0:
            return None
        return f"{100.0 * (own / other - 1.0):+.1f} %"

    return find


def _gap_of_best_rival(network: str) -> Ours:
    """QoE_p of the best other system below Concerto's on a network."""

    def find(means: polars.DataFrame) -> str | None:
        known = {
            (row["controller"], row["codec"]): float(row["qoe_p"])
            for row in means.filter(polars.col("network") == network).iter_rows(named=True)
        }
        scores = {name: known[key] for name, key in SYSTEMS.items() if key in known}
        own = scores.pop("concerto", None)
        if own is None or not scores:
            return None
        best = max(scores, key=lambda name: scores[name])
        return f"{100.0 * (1.0 - scores[best] / own):.1f} % ({best})"

    return find


def _relative_qoe(variant: str, best: str) -> Ours:
    """QoE_p of a variant over that of the paper's design."""

    def find(means: polars.DataFrame) -> str | None:
        known = dict(zip(means["variant"], means["qoe_p"], strict=True))
        return f"{known[variant] / known[best]:.3f}" if variant in known and best in known else None

    return find


TRAINING: Mapping[str, tuple[str, ...]] = {
    "small": ("--generated", "200", "--loops", "4", "--epochs", "2", "--call-seconds", "8"),
    "full": ("--generated", "200", "--loops", "4", "--epochs", "5", "--call-seconds", "20"),
    "paper": ("--generated", "200", "--loops", "4", "--epochs", "5", "--call-seconds", "60"),
}
"""Arguments of `lockstep train concerto` by budget."""

RLV_UPDATES = {"small": 20, "full": 100, "paper": 100}
"""Gradient steps of RL-V as published, by budget; the full number is that of the shipped model."""

VARIANTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "inputs": {"4 (both layers)": (), "2 (transport)": ("--inputs", "transport")},
    "losses": {
        "l1 (cross-entropy)": ("--loss", "cross-entropy"),
        "l2 (C = 0)": ("--loss", "weighted"),
        "l3 (C = 100)": ("--overshoot", "100"),
        "l4 (C = 8)": (),
    },
    "networks": {"2-D": (), "1-D": ("--network", "1d"), "dense": ("--network", "dense")},
    "smoothness": {"with (0.5)": (), "without": ("--smoothness", "0")},
    "mismatch": {name: ("--family", family) for name, family in FAMILIES.items()},
    "beta": {"0.5": (), "0.25": ("--expert-share", "0.25"), "0.75": ("--expert-share", "0.75")},
    "loops": {"1": ("--loops", "1"), "2": ("--loops", "2"), "4": ("--loops", "4")},
    "epochs": {"1": ("--epochs", "1"), "2": ("--epochs", "2"), "4": ("--epochs", "4")},
    # The paper decides every second. In the small budget, longer calls compensate for longer intervals, so that the
    # number of decisions is the same.
    "intervals": {
        "200 ms": (),
        "500 ms": ("--interval-ms", "500", "--call-seconds", "20"),
        "1 s": ("--interval-ms", "1000", "--call-seconds", "40"),
    },
}
"""Parts that train variants: names of the variants, and their arguments in addition to `TRAINING`."""
PARTS = ("observation", "controllers", *VARIANTS)
"""All parts, in their order."""

PAPER = "Concerto, MobiCom 2019"
THEIR_CALLS = "The paper's calls are over recorded traces of 10 h each; ours are over generated ones."
FIGURES = (
    *(
        PaperFigure(
            "controllers",
            f"throughput of Concerto over {name}",
            f"+{gain} %",
            f"{PAPER}, section 5.2",
            _gain_over(*SYSTEMS[system]),
            THEIR_CALLS,
        )
        for name, system, gain in (
            ("WebRTC", "gcc, conventional codec", 54.9),
            ("Salsify, on GCC's transport", "gcc, functional codec", 53.9),
            ("RL-V", "rlv", 37.3),
        )
    ),
    *(
        PaperFigure(
            "controllers",
            f"QoE of the closest competitor below Concerto's on {network}",
            f"{gap} %",
            f"{PAPER}, section 5.2",
            _gap_of_best_rival(network),
            "The paper's QoE is normalised; ours is QoE_p, whose constant is 3.3. " + THEIR_CALLS,
        )
        for network, gap in (("3G", 23.8), ("4G", 24.9), ("Wi-Fi", 34.3))
    ),
    *(
        PaperFigure(
            part,
            f"QoE_p of {variant} over that of {best}",
            f"{printed}",
            f"{PAPER}, table 3",
            _relative_qoe(variant, best),
            THEIR_CALLS,
        )
        for part, variant, best, printed in (
            ("inputs", "2 (transport)", "4 (both layers)", 0.82),
            ("losses", "l1 (cross-entropy)", "l4 (C = 8)", 0.87),
            ("losses", "l2 (C = 0)", "l4 (C = 8)", 0.85),
            ("losses", "l3 (C = 100)", "l4 (C = 8)", 0.82),
        )
    ),
    PaperFigure(
        "controllers",
        "stall time relative to GCC",
        "a third (its deployment; no network, no spread)",
        "according to DaTaobao Tech, https://www.besthub.dev/articles/machine-learning-based-bandwidth-prediction-and-"
        "adaptive-streaming-for-taobao-live-concerto-onrl-and-loki-7e4c30b2ca62; the abstract only claims multi-fold "
        "reduction",
        _stalls_relative_to_gcc,
        "Theirs were live streams over real paths of all kinds. These are modelled calls over generated links, where "
        "GCC rarely stalls.",
    ),
)
"""Known figures of the paper for the parts here; those for the observation are in its file."""


def traces(family: str, count: int, seconds: float = SECONDS_OF_A_CALL) -> list[str]:
    """Texts for the judging traces of a family, which last ``seconds``, and at least the default length."""
    length = f"seconds={max(seconds, SECONDS_OF_A_CALL):g}"
    return [f"fitted:family={family},seed={JUDGED_SEED + index},{length}" for index in range(count)]


def _seconds(options: argparse.Namespace) -> float:
    """Length of a judging call, seconds."""
    usual = PAPER_SECONDS_OF_A_CALL if options.budget == PAPER_BUDGETS[-1] else SECONDS_OF_A_CALL
    return float(options.seconds or usual)


def training_of(options: argparse.Namespace) -> tuple[str, ...]:
    """Arguments of `lockstep train concerto` by budget; longer calls compensate for the paper's longer interval."""
    words = TRAINING[options.budget]
    if not options.as_published:
        return words
    seconds = dict(zip(words[::2], words[1::2], strict=True))["--call-seconds"]
    return (*words, "--call-seconds", f"{float(seconds) * PUBLISHED_LONGER:g}")


def run_of(options: argparse.Namespace, arguments: tuple[str, ...], seed: int) -> tuple[str, list[str]]:
    """The folder of a training of Concerto, whose name identifies the training, and the arguments."""
    words = [*training_of(options), *arguments]
    # Of repeated options the last one counts, so that equal trainings share a folder.
    merged = dict(zip(words[::2], words[1::2], strict=True))
    name = "-".join(f"{key.removeprefix('--')}={value}" for key, value in sorted(merged.items()))
    training = [word for pair in merged.items() for word in pair]
    if options.as_published:
        name = f"as-published-{name}"
        training.append("--as-published")
    # Always the CPU: many small trainings run in parallel, and results are the same on every machine.
    training += ["--seed", str(seed), "--threads", "1", "--device", "cpu", "--judged", "0"]
    return f"{name}-seed={seed}-program={program_hash()[:12]}", training


def runs_of(
    options: argparse.Namespace, variants: Mapping[str, tuple[str, ...]]
) -> dict[tuple[str, int], tuple[str, list[str]]]:
    """The training of each variant and seed."""
    return {
        (name, seed): run_of(options, arguments, seed)
        for name, arguments in variants.items()
        for seed in range(1, options.seeds + 1)
    }


def published_rlv(options: argparse.Namespace) -> tuple[str, list[str]]:
    """Folder and arguments of the training of RL-V as published."""
    updates = RLV_UPDATES[options.budget]
    words = ["--as-published", "--updates", str(updates), "--seed", "1", "--threads", "1", "--device", "cpu"]
    return f"rlv-as-published-updates={updates}-program={program_hash()[:12]}", [*words, "--judged", "0"]


def trains_rlv(options: argparse.Namespace) -> bool:
    """Whether the study trains RL-V."""
    return bool(options.as_published and options.rlv is None and "controllers" in options.parts)


def trained(
    study: Study, options: argparse.Namespace, part: str, variants: Mapping[str, tuple[str, ...]]
) -> dict[tuple[str, int], Path]:
    """The models of Concerto by variant and seed; trains missing ones, several at once."""
    runs = runs_of(options, variants)

    def train(name: str, seed: int) -> Path:
        return study.train("concerto", *runs[name, seed])

    cells = [{"part": part, "variant": name, "seed": seed, "trained": run} for (name, seed), (run, _) in runs.items()]
    study.run(cells, lambda cell: {"model": str(train(cell["variant"], cell["seed"]))}, options.workers)
    return {which: train(*which) for which in runs}


def works(study: Study, options: argparse.Namespace) -> list[Work]:
    """All trainings and calls of the parts that train; one short training and one short call give the times."""
    missing, cells = set(), 0
    for part in options.parts:
        if part == "observation":
            continue
        models: dict[tuple[str, int], Path | None] = {}
        for which, (run, _) in runs_of(options, variants_of(part)).items():
            folder = study.folder / "runs" / run
            models[which] = folder / "concerto.onnx" if (folder / FINISHED).exists() else None
            missing |= set() if models[which] else {run}
        cells += len(study.unfinished(cells_of(options, part, models)))
    found = []
    rlv_folder = study.folder / "runs" / published_rlv(options)[0]
    if trains_rlv(options) and not (rlv_folder / FINISHED).exists():
        steps = RLV_UPDATES[options.budget] / RLV_UPDATES["full"]
        found.append(Work("training of RL-V as published", 1, RLV_SECONDS * steps))
    if missing:
        found.append(Work("trainings", len(missing), training_seconds(options), options.workers))
    if cells:
        length = TRIED_SECONDS if options.real else _seconds(options)
        trace = traces(next(iter(FAMILIES.values())), 1)[0]
        call = timed(
            lambda: measure("gcc", "conventional", trace, seconds=length, modelled=not options.real),
            length / _seconds(options),
        )
        found.append(Work(f"measurements of {options.traces} calls", cells, call * options.traces, options.workers))
    return found


def training_seconds(options: argparse.Namespace) -> float:
    """Estimated time of a training of the budget, from one loop and epoch of short calls."""
    words = training_of(options)
    given = dict(zip(words[::2], words[1::2], strict=True))
    loops, epochs = int(given["--loops"]), int(given["--epochs"])
    shorter = ("--loops", "1", "--epochs", "1", "--call-seconds", f"{TRIED_CALL_SECONDS:g}")
    with tempfile.TemporaryDirectory() as folder:
        trial = Study("trial", Path(folder), quiet=True)
        model = trial.train("concerto", *run_of(options, shorter, 1))
        tried = json.loads(model.with_suffix(".json").read_bytes())["training_seconds"]
    # Each loop collects calls once, and learns from all loops' calls in each epoch.
    steps = loops + epochs * loops * (loops + 1) / 2
    return max(float(tried), 1.0) * steps / 2 * float(given["--call-seconds"]) / TRIED_CALL_SECONDS


def measured(cell: Cell, options: argparse.Namespace, model: Path | None) -> dict[str, float]:
    """Means over the traces of one cell's family."""
    names = traces(FAMILIES[cell["network"]], options.traces, _seconds(options))
    rows = [
        measure(
            cell["controller"], cell["codec"], name, seconds=_seconds(options), model=model, modelled=not options.real
        )
        for name in names
    ]
    return {key: sum(row[key] for row in rows) / len(rows) for key in MEASURES}


def variants_of(part: str) -> Mapping[str, tuple[str, ...]]:
    """The trainings of a part: names, and arguments in addition to `TRAINING`."""
    return VARIANTS.get(part, {"": ()})


def model_of(options: argparse.Namespace, models: Mapping[tuple[str, int], Path | None], cell: Cell) -> Path | None:
    """The model of a cell's controller; None for one without a model, or for the shipped model."""
    if cell["controller"] == "concerto":
        return models[cell.get("variant", ""), cell["seed"]]
    model: Path | None = options.rlv if cell["controller"] == "rlv" else None
    return model


def cells_of(options: argparse.Namespace, part: str, models: Mapping[tuple[str, int], Path | None]) -> list[Cell]:
    """The measurements of a part, whose trainings gave ``models``."""
    seeds = range(1, options.seeds + 1)
    cells: list[dict[str, Any]]
    if part == "controllers":
        cells = [
            {"part": part, "network": network, "codec": codec, "controller": name, "seed": seed}
            for network in FAMILIES
            for codec in CODECS
            for name in ("concerto", *RIVALS)
            for seed in (seeds if name == "concerto" else (1,))
        ]
    else:
        shared = {"codec": "conventional", "controller": "concerto"}
        cells = [
            {"part": part, "variant": variant, "network": network, **shared, "seed": seed}
            for variant in VARIANTS[part]
            for seed in seeds
            for network in FAMILIES
        ]
    return [cell | _setting(options, model_of(options, models, cell)) for cell in cells]


def measure_all(study: Study, options: argparse.Namespace, part: str) -> polars.DataFrame:
    """Trains first, then runs the calls of a part."""
    models = trained(study, options, part, variants_of(part))
    return study.run(
        cells_of(options, part, models),
        lambda cell: measured(cell, options, model_of(options, models, cell)),
        options.workers,
    )


def controllers(study: Study, options: argparse.Namespace) -> None:
    """Part one: Concerto, trained here, and the others, on each network and with both codecs."""
    table = measure_all(study, options, "controllers")
    by = ("controller", "network", "codec")
    means = summary(table, by, list(MEASURES))
    _report(study, options, "controllers", means, by)
    study.report("The systems of the paper's section 5.2, means over networks:")
    named = table.with_columns(polars.lit(None, polars.String).alias("system"))
    for system, (controller, codec) in SYSTEMS.items():
        chosen = (polars.col("controller") == controller) & (polars.col("codec") == codec)
        named = named.with_columns(polars.when(chosen).then(polars.lit(system)).otherwise("system").alias("system"))
    systems = summary(named.drop_nulls("system").sort("network"), ("system",), list(MEASURES))
    study.report(words(systems, ("system",), SHOWN, THEIRS))
    title = f"Conventional codec, budget {options.budget}"
    plot = chart(means.filter(polars.col("codec") == "conventional"), by[:2], DRAWN, title)
    study.write("controllers", table, {"controllers": plot})


def variants(study: Study, options: argparse.Namespace, part: str) -> None:
    """One of the other parts: the effect of a change to the training, conventional codec as in the paper."""
    table = measure_all(study, options, part)
    by = ("variant", "network") if part == "mismatch" else ("variant",)
    means = summary(table, by, list(MEASURES))
    _report(study, options, part, means, by)
    study.write(part, table, {part: chart(means, by, DRAWN, f"{part.capitalize()}, budget {options.budget}")})


def _report(study: Study, options: argparse.Namespace, part: str, means: polars.DataFrame, by: Sequence[str]) -> None:
    """Prints the table of a training part, its budget, and the paper's figures."""
    kind = "calls with the codec" if options.real else "modelled calls"
    published = ", as published" if options.as_published else ""
    study.report(
        f"{part}, budget {options.budget}: {options.seeds} seeds, {options.traces} traces per network, {kind} of "
        f"{_seconds(options):.0f} s; trainings with {' '.join(training_of(options))}{published}\n"
    )
    study.report(words(means, by, SHOWN, {}))
    study.report(comparison(FIGURES, part, means, "the paper"))


def _setting(options: argparse.Namespace, model: Path | None) -> dict[str, Any]:
    """Settings on which the calls depend; the hash of the program includes shipped models."""
    return {
        "budget": options.budget,
        "traces": options.traces,
        "seconds": _seconds(options),
        "real": options.real,
        "program": program_hash(),
        "model": "" if model is None else content_hash(model),
    }


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = ArgumentParser(
        prog="lockstep study concerto",
        description=(__doc__ or "").partition("\n")[0],
        epilog="All parts except the observation train and require the extra `learn`. For the observation's calls "
        "alone with all options of calls, see lockstep sources.",
    )
    add_arguments(made, "concerto", PAPER_BUDGETS)
    made.add_argument("--as-published", action="store_true", help="train as the paper prints it")
    made.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="parts to run (default: all)")
    made.add_argument("--traces", type=whole(1), metavar="COUNT", help="number of traces of each network (5; else 20)")
    made.add_argument(
        "--seconds",
        type=SECONDS,
        metavar="SECONDS",
        help="length of a call (60, paper: 1800; observation: 120, full: 300, paper: 2747)",
    )
    made.add_argument(
        "--real", action="store_true", help="use the codec instead of its model; in the observation add such video"
    )
    made.add_argument(
        "--rlv",
        type=Path,
        default=None,
        metavar="FILE",
        help="model of RL-V (default: the shipped one, or one trained as published)",
    )
    return made


def torch_missing() -> bool:
    """Whether PyTorch, which trainings require, is missing."""
    return importlib.util.find_spec("torch") is None


def main(arguments: list[str] | None = None) -> int:
    """Runs the study; returns the exit status."""
    options = parser().parse_args(arguments)
    full = options.budget != BUDGETS[0]
    options.seeds = options.seeds or (5 if full else 3)
    options.traces = options.traces or (20 if full else 5)
    # Report missing requirements before any call, whatever results the folder has.
    if options.rlv is not None and not options.rlv.is_file():
        raise ValueError(f"--rlv {options.rlv}: no such file")
    if set(options.parts) != {"observation"} and torch_missing():
        message = (
            f"trainings require PyTorch; install it with: {install_command('learn')}; "
            "or run --parts observation, which does not train"
        )
        raise ValueError(message)
    study = Study("concerto", options.output, fresh=options.fresh)
    observed = observation_works(study, options) if "observation" in options.parts else []
    study.announce([*observed, *works(study, options)])
    if trains_rlv(options):
        options.rlv = study.train("rlv", *published_rlv(options))
    for part in options.parts:
        if part == "observation":
            observation(study, options)
        elif part == "controllers":
            controllers(study, options)
        else:
            variants(study, options, part)
    return 0


if __name__ == "__main__":
    sys.exit(main())
