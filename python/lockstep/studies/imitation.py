"""Concerto's imitation learning: what its parts bring, and what comes of it beside GCC, Salsify and RL-V.

Concerto (MobiCom 2019) compares itself with rules and with reinforcement (RL-V) on 3G, 4G and Wi-Fi; its inputs of both
layers with those of the transport alone; four losses; training with and without smoothness; training on another access
network than the one it is used on; and the parts of its imitation loop: the expert's share beta, loops L, epochs. This
does the same with modelled calls (``--real``: with the codec) on traces of fitted families, of seeds that training
never takes, and compares its interval of a second with shorter ones. Its observation, that video gets less than a
full-throttle source, is ``lockstep study concerto``.

The losses are cumulative: l1 is cross-entropy, l2 weighs it by the squared distance, l3 has C on overshoot as well, l4
smoothness.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars

from lockstep.content_hash import content_hash, program_hash
from lockstep.learn.arguments import SECONDS, whole
from lockstep.learn.judging import CODECS, MEASURES, measure
from lockstep.studies.study import BUDGETS, Cell, Study, add_arguments, chart, say, summary

FAMILIES = {"3G": "umts", "4G": "lte", "Wi-Fi": "wifi"}
"""The paper's access networks, and the families of generated traces that stand for them."""
JUDGED_SEED = 900_000
"""Traces that models are judged by have seeds from here on, which training does not take."""
SHOWN = {"qoe_p": 2, "qoe_d": 2, "throughput_kbps": 0, "p95_ms": 0, "stall_minutes_per_hour": 1, "smoothness_kbps": 0}
"""What the tables show, with digits; all of `MEASURES` is in the Parquet files."""
DRAWN = {"qoe_d": "QoE_d", "throughput_kbps": "throughput, kb/s", "p95_ms": "video delay, p95, ms"}
RIVALS = ("gcc", "salsify", "rlv", "oracle")

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
"""Parts of the study: of each, its variants by name, and what their trainings are told beside `TRAINING`."""


def traces(family: str, count: int) -> list[str]:
    """Words for the traces of a family that models are judged by."""
    return [f"fitted:family={family},seed={JUDGED_SEED + index},seconds=60" for index in range(count)]


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
            cell["controller"], cell["codec"], name, seconds=options.seconds, model=model, modelled=not options.real
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
    say(means, by, SHOWN, {})
    plot = chart(means.filter(polars.col("codec") == "conventional"), by[:2], DRAWN, "Conventional codec")
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
    print(f"{part}:")
    say(means, by, SHOWN, {})
    study.write(part, table, {part: chart(means, by, DRAWN, part.capitalize())})


def _setting(options: argparse.Namespace, model: Path | None) -> dict[str, Any]:
    """What calls depend on beside which they are; a model that comes with the program is part of that."""
    return {
        "budget": options.budget,
        "traces": options.traces,
        "seconds": options.seconds,
        "real": options.real,
        "program": program_hash(),
        "model": "" if model is None else content_hash(model),
    }


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = argparse.ArgumentParser(prog="lockstep study imitation", description=(__doc__ or "").partition("\n")[0])
    add_arguments(made, "imitation")
    parts = ["controllers", *VARIANTS]
    made.add_argument("--parts", nargs="+", choices=parts, default=parts, help="what is run; all if not said")
    made.add_argument("--traces", type=whole(1), metavar="COUNT", help="traces of each network (5; full: 20)")
    made.add_argument("--seconds", type=SECONDS, default=60.0, help="length of a call (%(default)s)")
    made.add_argument("--real", action="store_true", help="with the codec, not the model of it")
    made.add_argument("--rlv", type=Path, default=None, metavar="FILE", help="a model of RL-V, if not the shipped one")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Runs the study; gives the exit status."""
    options = parser().parse_args(arguments)
    full = options.budget == BUDGETS[1]
    options.seeds = options.seeds or (5 if full else 3)
    options.traces = options.traces or (20 if full else 5)
    if options.rlv is not None and not options.rlv.is_file():
        # Whatever the folder has.
        raise ValueError(f"--rlv {options.rlv}: there is no such file")
    study = Study("imitation", options.output, fresh=options.fresh)
    print(f"budget {options.budget}: {options.seeds} seeds, {options.traces} traces a network; "
          f"trainings with {' '.join(TRAINING[options.budget])}\n")  # fmt: skip
    for part in options.parts:
        if part == "controllers":
            controllers(study, options)
        else:
            variants(study, options, part)
    return 0


if __name__ == "__main__":
    sys.exit(main())
