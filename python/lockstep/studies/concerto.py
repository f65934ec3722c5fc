"""Concerto: its observation, what its imitation learning brings, and what comes of it beside GCC, Salsify and RL-V.

Concerto (MobiCom 2019) observes that video gets less than a full-throttle source under the same control; compares
itself with rules and with reinforcement (RL-V) on 3G, 4G and Wi-Fi; its inputs of both layers with those of the
transport alone; four losses; training with and without smoothness; training on another access network than the one it
is used on; and the parts of its imitation loop: the expert's share beta, loops L, epochs. This does the same with
modelled calls (``--real``: with the codec) on traces of fitted families, of seeds that training never takes, and
compares its interval of a second with shorter ones. The observation (``observation.py``) takes no PyTorch.

The losses are cumulative: l1 is cross-entropy, l2 weighs it by the squared distance, l3 has C on overshoot as well, l4
smoothness.
"""

import argparse
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars

from lockstep.argument_types import whole
from lockstep.content_hash import content_hash, program_hash
from lockstep.distribution import install_command
from lockstep.learn.arguments import SECONDS
from lockstep.learn.judging import CODECS, MEASURES, measure
from lockstep.studies.observation import observation
from lockstep.studies.printed import PaperFigure, beside
from lockstep.study import BUDGETS, Cell, Study, add_arguments, chart, summary, words

FAMILIES = {"3G": "umts", "4G": "lte", "Wi-Fi": "wifi"}
"""The paper's access networks, and the families of generated traces that stand for them."""
SECONDS_OF_A_CALL = 60.0
"""By which models are judged, if not said."""
JUDGED_SEED = 900_000
"""Traces that models are judged by have seeds from here on, which training does not take."""
SHOWN = {"qoe_p": 2, "qoe_d": 2, "throughput_kbps": 0, "p95_ms": 0, "stall_minutes_per_hour": 1, "smoothness_kbps": 0}
"""What the tables show, with digits; all of `MEASURES` is in the Parquet files."""
DRAWN = {"qoe_d": "QoE_d", "throughput_kbps": "throughput, kb/s", "p95_ms": "video delay, p95, ms"}
RIVALS = ("gcc", "salsify", "rlv", "hindsight")


def _stalls_beside_gcc(means: polars.DataFrame) -> str | None:
    """Concerto's stalls with the conventional codec over GCC's, on all networks together."""
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
    return f"{own:.1f} min/h beside {gcc:.1f}{share}"


TRAINING: Mapping[str, tuple[str, ...]] = {
    "small": ("--generated", "200", "--loops", "4", "--epochs", "2", "--call-seconds", "8"),
    "full": ("--generated", "200", "--loops", "4", "--epochs", "5", "--call-seconds", "20"),
}
"""Arguments of `lockstep train concerto` by budget."""

VARIANTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "inputs": {"4 (both layers)": (), "2 (transport)": ("--inputs", "transport")},
    "losses": {
        "l1": ("--loss", "cross-entropy", "--smoothness", "0"),
        "l2": ("--loss", "weighted", "--smoothness", "0"),
        "l3": ("--loss", "overshoot", "--smoothness", "0"),
        "l4": (),
    },
    "smoothness": {"with (0.5)": (), "without": ("--smoothness", "0")},
    "mismatch": {name: ("--family", family) for name, family in FAMILIES.items()},
    "beta": {"0.5": (), "0.25": ("--expert-share", "0.25"), "0.75": ("--expert-share", "0.75")},
    "loops": {"1": ("--loops", "1"), "2": ("--loops", "2"), "4": ("--loops", "4")},
    "epochs": {"1": ("--epochs", "1"), "2": ("--epochs", "2"), "4": ("--epochs", "4")},
    # The paper decides each second. Calls that are longer by as much give as many decisions to learn from, in the
    # small budget.
    "intervals": {
        "200 ms": (),
        "500 ms": ("--interval-ms", "500", "--call-seconds", "20"),
        "1 s": ("--interval-ms", "1000", "--call-seconds", "40"),
    },
}
"""Parts that train variants: of each, their names, and what their trainings are told beside `TRAINING`."""
PARTS = ("observation", "controllers", *VARIANTS)
"""All parts, in their order."""

FIGURES = (
    PaperFigure(
        "controllers",
        "time that stalls, beside GCC",
        "a third (its deployment; no network, no spread)",
        "said of Concerto by DaTaobao Tech, https://www.besthub.dev/articles/machine-learning-based-bandwidth-prediction-and-"
        "adaptive-streaming-for-taobao-live-concerto-onrl-and-loki-7e4c30b2ca62; the abstract only says by multi-folds",
        _stalls_beside_gcc,
        "Theirs were live streams over real paths of all kinds; these are modelled calls over generated links, where "
        "GCC hardly stalls.",
    ),
)
"""What is known of the paper's figures for the parts here; those for the observation are in its file."""


def traces(family: str, count: int) -> list[str]:
    """Words for the traces of a family that models are judged by."""
    return [f"fitted:family={family},seed={JUDGED_SEED + index},seconds=60" for index in range(count)]


def _seconds(options: argparse.Namespace) -> float:
    """Length of the calls that models are judged by."""
    return options.seconds or SECONDS_OF_A_CALL


def run_of(options: argparse.Namespace, arguments: tuple[str, ...], seed: int) -> tuple[str, list[str]]:
    """The folder of a training of Concerto, which names all that the training depends on, and what it is told."""
    words = [*TRAINING[options.budget], *arguments]
    # The later of two equal options counts: runs that come to the same have one folder.
    said = dict(zip(words[::2], words[1::2], strict=True))
    name = "-".join(f"{key.removeprefix('--')}={value}" for key, value in sorted(said.items()))
    told = [word for pair in said.items() for word in pair]
    # The CPU, whatever the machine has: many small trainings side by side, and tables that others get as well.
    told += ["--seed", str(seed), "--threads", "1", "--device", "cpu", "--judged", "0"]
    return f"{name}-seed={seed}-program={program_hash()[:12]}", told


def trained(
    study: Study, options: argparse.Namespace, part: str, variants: Mapping[str, tuple[str, ...]]
) -> dict[tuple[str, int], Path]:
    """The models of Concerto by variant and seed; trains those that there are not, as many at once as workers."""
    runs = {
        (name, seed): run_of(options, arguments, seed)
        for name, arguments in variants.items()
        for seed in range(1, options.seeds + 1)
    }

    def train(name: str, seed: int) -> Path:
        return study.train("concerto", *runs[name, seed])

    cells = [{"part": part, "variant": name, "seed": seed, "trained": run} for (name, seed), (run, _) in runs.items()]
    study.run(cells, lambda cell: {"model": str(train(cell["variant"], cell["seed"]))}, options.workers)
    return {which: train(*which) for which in runs}


def measured(cell: Cell, options: argparse.Namespace, model: Path | None) -> dict[str, float]:
    """Means over the traces of one cell's family."""
    names = traces(FAMILIES[cell["network"]], options.traces)
    rows = [
        measure(
            cell["controller"], cell["codec"], name, seconds=_seconds(options), model=model, modelled=not options.real
        )
        for name in names
    ]
    return {key: sum(row[key] for row in rows) / len(rows) for key in MEASURES}


def controllers(study: Study, options: argparse.Namespace) -> None:
    """Part one: Concerto, trained here, beside the others, on each network and with either codec."""
    own = trained(study, options, "controllers", {"": ()})

    def model_of(controller: str, seed: int) -> Path | None:
        if controller == "concerto":
            return own["", seed]
        model: Path | None = options.rlv if controller == "rlv" else None
        return model

    cells = [
        {"part": "controllers", "network": network, "codec": codec, "controller": name, "seed": seed}
        | _setting(options, model_of(name, seed))
        for network in FAMILIES
        for codec in CODECS
        for name in ("concerto", *RIVALS)
        for seed in (range(1, options.seeds + 1) if name == "concerto" else (1,))
    ]
    table = study.run(
        cells, lambda cell: measured(cell, options, model_of(cell["controller"], cell["seed"])), options.workers
    )
    by = ("controller", "network", "codec")
    means = summary(table, by, list(MEASURES))
    _say(study, options, "controllers", means, by)
    title = f"Conventional codec, budget {options.budget}"
    plot = chart(means.filter(polars.col("codec") == "conventional"), by[:2], DRAWN, title)
    study.write("controllers", table, {"controllers": plot})


def variants(study: Study, options: argparse.Namespace, part: str) -> None:
    """One of the other parts: what a change to the training brings, conventional codec as in the paper."""
    # Trainings first, and then calls.
    models = trained(study, options, part, VARIANTS[part])
    cells = [
        {"part": part, "variant": variant, "network": network, "codec": "conventional", "controller": "concerto",
         "seed": seed, **_setting(options, models[variant, seed])}
        for variant in VARIANTS[part]
        for seed in range(1, options.seeds + 1)
        for network in FAMILIES
    ]  # fmt: skip
    table = study.run(
        cells, lambda cell: measured(cell, options, models[cell["variant"], cell["seed"]]), options.workers
    )
    by = ("variant", "network") if part == "mismatch" else ("variant",)
    means = summary(table, by, list(MEASURES))
    _say(study, options, part, means, by)
    study.write(part, table, {part: chart(means, by, DRAWN, f"{part.capitalize()}, budget {options.budget}")})


def _say(study: Study, options: argparse.Namespace, part: str, means: polars.DataFrame, by: Sequence[str]) -> None:
    """Says the table of a part that trains, of which budget it is, and what the paper has."""
    kind = "calls with the codec" if options.real else "modelled calls"
    study.say(f"{part}, budget {options.budget}: {options.seeds} seeds, {options.traces} traces a network, {kind} of "
              f"{_seconds(options):.0f} s; trainings with {' '.join(TRAINING[options.budget])}\n")  # fmt: skip
    study.say(words(means, by, SHOWN, {}))
    study.say(beside(FIGURES, part, means, "the paper"))


def _setting(options: argparse.Namespace, model: Path | None) -> dict[str, Any]:
    """What calls depend on beside which they are; a model that comes with the program is part of that."""
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
    made = argparse.ArgumentParser(
        prog="lockstep study concerto",
        description=(__doc__ or "").partition("\n")[0],
        epilog="All parts but the observation train, which takes the extra `learn`. The observation's calls alone, "
        "with every option that calls have: lockstep sources.",
    )
    add_arguments(made, "concerto")
    made.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what is run; all if not said")
    made.add_argument("--traces", type=whole(1), metavar="COUNT", help="traces of each network (5; full: 20)")
    made.add_argument(
        "--seconds", type=SECONDS, metavar="SECONDS", help="length of a call (60; of the observation 120, full: 300)"
    )
    made.add_argument(
        "--real", action="store_true", help="with the codec, not the model of it; in the observation, such video, too"
    )
    made.add_argument("--rlv", type=Path, default=None, metavar="FILE", help="a model of RL-V, if not the shipped one")
    return made


def torch_missing() -> bool:
    """Whether PyTorch, which trainings take, is not installed."""
    return importlib.util.find_spec("torch") is None


def main(arguments: list[str] | None = None) -> int:
    """Runs the study; gives the exit status."""
    options = parser().parse_args(arguments)
    full = options.budget == BUDGETS[1]
    options.seeds = options.seeds or (5 if full else 3)
    options.traces = options.traces or (20 if full else 5)
    # What is missing is told before anything is run, whatever the folder has.
    if options.rlv is not None and not options.rlv.is_file():
        raise ValueError(f"--rlv {options.rlv}: there is no such file")
    if set(options.parts) != {"observation"} and torch_missing():
        message = (
            f"PyTorch is missing, which trainings take; install it with: {install_command('learn')}; "
            "or take --parts observation, which trains nothing"
        )
        raise ValueError(message)
    study = Study("concerto", options.output, fresh=options.fresh)
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
