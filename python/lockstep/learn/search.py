"""A search: one training for each of several seeds and settings, and a table of the results.

``lockstep train concerto --seeds 1-3 --search smoothness=0,0.5 --output DIR`` starts six trainings. Each has a folder
in ``DIR/runs`` and a separate process, the same as for a single training. They run one after another, ``--workers`` in
parallel, or on a Ray cluster (:mod:`lockstep.learn.search_ray`). Finished trainings are not repeated.
"""

import argparse
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import polars

from lockstep.learn.arguments import (
    MAX_TRAININGS,
    SETTING,
    check_setting,
    known_setting,
    of_a_search,
    parser,
    setting_of,
)
from lockstep.learn.judging import CODECS, MEASURES
from lockstep.learn.search_ray import Task, data_of, train_on
from lockstep.module_command import ArgumentParser
from lockstep.ray_cluster import ClusterError
from lockstep.study import FINISHED, Cell, Keep, Study, print_table, summary

SHOWN = {"qoe_d": 3, "qoe_p": 3, "p95_ms": 0, "throughput_kbps": 0, "link_used": 3}
"""Printed measures with their numbers of digits; the Parquet file has all `MEASURES`."""
BEST_BY = "qoe_d"
"""Measure that ranks the trainings; higher is better."""


@dataclass(frozen=True)
class Training:
    """One training of a search."""

    cell: dict[str, Any]
    """Its algorithm, its seed and the values of the search, by name."""
    name: str
    """Name of its folder."""
    words: list[str]
    """Its command line arguments without the folder."""
    options: argparse.Namespace
    """The parsed arguments."""


def grid(algorithm: str, words: Sequence[str]) -> list[Training]:
    """One training for each seed and combination of values.

    Raises:
        ValueError: If a name of the search is unknown or repeated.

    """
    options = parser(algorithm).parse_args(words)
    axes: dict[str, list[str]] = {"seed": [str(seed) for seed in options.seeds or [options.seed]]}
    named = ["seed"] if options.seeds else []
    for name, values in options.search:
        if name.replace("-", "_") not in setting_of(algorithm, options) or name == "algorithm":
            raise ValueError(f"--search {name}: unknown argument of {algorithm}; see --help")
        if name in named:
            raise ValueError(f"--search {name}: the argument is repeated")
        named.append(name)
        axes[name] = values
    if math.prod(map(len, axes.values())) > MAX_TRAININGS:
        raise ValueError(f"--search: expected at most {MAX_TRAININGS} trainings")
    # The remaining arguments are those of each training; of repeated ones the last counts.
    own = ArgumentParser(add_help=False, allow_abbrev=False)
    of_a_search(own)
    own.add_argument("--output")
    own.add_argument("--quiet", action="store_true")
    rest = own.parse_known_args(words)[1]
    made = []
    for chosen in product(*axes.values()):
        arguments = [*rest, *(f"--{name}={value}" for name, value in zip(axes, chosen, strict=True))]
        read = parser(algorithm).parse_args(["--output", str(options.output), *arguments])
        values = {name: getattr(read, name.replace("-", "_")) for name in axes}
        cell = {
            name: value if isinstance(value, int | float) else text
            for (name, value), text in zip(values.items(), chosen, strict=True)
        }
        folder = "-".join(f"{name}={_for_a_path(text)}" for name, text in zip(axes, chosen, strict=True))
        made.append(Training({"algorithm": algorithm, **cell}, folder, arguments, read))
    if len({one.name for one in made}) < len(made):
        raise ValueError("--search: two values give the same folder name; run one search for each")
    return made


def _for_a_path(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.+-]", "_", text)[-48:]


def run(algorithm: str, words: Sequence[str]) -> int:
    """Runs all trainings of ``words``, prints the results, and returns the exit status.

    Raises:
        ValueError: If arguments contradict each other, the folder has another run, or a training fails.
        ClusterError: If a training cannot run on the cluster.

    """
    options = parser(algorithm).parse_args(words)
    folder: Path = options.output
    if not (options.seeds or options.search):
        raise ValueError("--workers and --on require several trainings: add --seeds or --search")
    if options.on and options.workers:
        raise ValueError("--workers and --on exclude each other: remove one")
    if options.export:
        raise ValueError("--export works for one training: run `lockstep export` on a folder in runs")
    made = grid(algorithm, words)
    if (folder / SETTING).exists():
        raise ValueError(f"{folder} has a single training, not a search; name another folder")
    for one in made:
        if (_folder(folder, one) / SETTING).exists():
            known = known_setting(_folder(folder, one), algorithm)
            check_setting(_folder(folder, one), known, setting_of(algorithm, one.options))

    def is_over(measures: Any) -> bool:
        return (folder / measures["model"]).is_file()

    study = Study(algorithm, folder, quiet=options.quiet, kind="search", is_over=is_over)
    by_name = {_key(one.cell): one for one in made}
    cells = [one.cell for one in made]

    def here(cell: Cell) -> dict[str, Any]:
        one = by_name[_key(cell)]
        study.train(algorithm, one.name, one.words)
        return measured(folder, one)

    def there(open_cells: Sequence[Cell], keep: Keep) -> None:
        _train_there(options.on, folder, [by_name[_key(cell)] for cell in open_cells], keep)

    table = study.take(cells, there) if options.on else study.run(cells, here, options.workers or 1)
    study.write(algorithm, table)
    print_results(table, folder)
    return 0


def _key(cell: Cell) -> tuple[Any, ...]:
    return tuple(cell.items())


def _folder(folder: Path, one: Training) -> Path:
    return folder / "runs" / one.name


def _train_there(address: str, folder: Path, made: Sequence[Training], keep: Keep) -> None:
    """Trains on a cluster; a failure of one training does not stop the others."""
    tasks = [
        Task(one.cell["algorithm"], tuple(one.words), _folder(folder, one).absolute(), data_of(one.options))
        for one in made
    ]
    failure: ClusterError | None = None
    gpu = made[0].options.device.startswith("cuda")
    for place, error in train_on(address, tasks, folder.absolute(), cores=made[0].options.threads, gpus=int(gpu)):
        if error is None:
            (tasks[place].folder / FINISHED).touch()
            keep(made[place].cell, measured(folder, made[place]))
        else:
            failure = failure or error
    if failure is not None:
        raise failure


def measured(folder: Path, one: Training) -> dict[str, Any]:
    """Results of a training from its model's card: for each codec, and the mean of both."""
    algorithm = one.cell["algorithm"]
    model = _folder(folder, one) / f"{algorithm}.onnx"
    card = json.loads(model.with_suffix(".json").read_bytes())
    row = {"model": str(model.relative_to(folder)), "training_seconds": card["training_seconds"]}
    scores = {codec: card["scores"].get(f"{algorithm}, {codec}") for codec in CODECS}
    if all(scores.values()):
        row |= {name: sum(of[name] for of in scores.values()) / len(CODECS) for name in MEASURES}
        row |= {f"{name}_{codec}": value for codec, of in scores.items() for name, value in of.items()}
    return row


def print_results(table: polars.DataFrame, folder: Path) -> None:
    """Prints the settings, best first, as means over seeds with intervals; then the best training."""
    if BEST_BY not in table.columns:
        print("no model was judged (--judged 0), so there is no best training")
        return
    searched = table.columns[: table.columns.index("model")]
    settings = [name for name in searched if name not in {"algorithm", "seed"}] or ["algorithm"]
    print_table(summary(table, settings, list(SHOWN)).sort(BEST_BY, descending=True), settings, SHOWN, {})
    best = table.sort(BEST_BY, descending=True, maintain_order=True).row(0, named=True)
    words = ", ".join(f"{name} {best[name]}" for name in searched[1:])
    print(f"best of {len(table)}: {words}, QoE_d {best[BEST_BY]:.3f}: {folder / best['model']}")
