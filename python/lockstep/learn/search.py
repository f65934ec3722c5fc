"""A search: a training for each of several seeds and settings, and a table of what came of them.

``lockstep train concerto --seeds 1-3 --search smoothness=0,0.5 --output DIR`` makes six, each in a folder of its own
below ``DIR/runs``, one after another, ``--workers`` at once, or on a Ray cluster (:mod:`lockstep.learn.search_ray`).
Each is a process of its own, as a training that somebody starts by itself. What is over is not trained again.
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
    MOST_TRAININGS,
    SETTING,
    check_setting,
    known_setting,
    of_a_search,
    parser,
    setting_of,
)
from lockstep.learn.judging import CODECS, MEASURES
from lockstep.learn.search_ray import Task, data_of, train_on
from lockstep.ray_cluster import ClusterError
from lockstep.study import FINISHED, Cell, Keep, Study, say, summary

SHOWN = {"qoe_d": 3, "qoe_p": 3, "p95_ms": 0, "throughput_kbps": 0, "link_used": 3}
"""What is printed of each setting, with digits; all of `MEASURES` is in the Parquet file."""
BEST_BY = "qoe_d"
"""What the best training has most of."""


@dataclass(frozen=True)
class Training:
    """One of a search."""

    cell: dict[str, Any]
    """Its algorithm, seed, and what is searched over, by name."""
    name: str
    """Of its folder."""
    words: list[str]
    """What it is told, but for the folder."""
    options: argparse.Namespace
    """The same, read."""


def grid(algorithm: str, words: Sequence[str]) -> list[Training]:
    """A training for each seed with each combination of values.

    Raises:
        ValueError: If what is searched over is nothing that such a training is told, or is named twice.

    """
    options = parser(algorithm).parse_args(words)
    axes: dict[str, list[str]] = {"seed": [str(seed) for seed in options.seeds or [options.seed]]}
    named = ["seed"] if options.seeds else []
    for name, values in options.search:
        if name.replace("-", "_") not in setting_of(algorithm, options) or name == "algorithm":
            raise ValueError(f"--search {name}: a training of {algorithm} is told nothing of the kind (--help)")
        if name in named:
            raise ValueError(f"--search {name}: it is named twice")
        named.append(name)
        axes[name] = values
    if math.prod(map(len, axes.values())) > MOST_TRAININGS:
        raise ValueError(f"--search: these are more than {MOST_TRAININGS} trainings")
    # What is left is for each training; of two equal arguments the later one counts.
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    of_a_search(own)
    own.add_argument("--output")
    own.add_argument("--quiet", action="store_true")
    rest = own.parse_known_args(words)[1]
    made = []
    for chosen in product(*axes.values()):
        told = [*rest, *(f"--{name}={value}" for name, value in zip(axes, chosen, strict=True))]
        read = parser(algorithm).parse_args(["--output", str(options.output), *told])
        values = {name: getattr(read, name.replace("-", "_")) for name in axes}
        cell = {
            name: value if isinstance(value, int | float) else text
            for (name, value), text in zip(values.items(), chosen, strict=True)
        }
        folder = "-".join(f"{name}={_for_a_path(text)}" for name, text in zip(axes, chosen, strict=True))
        made.append(Training({"algorithm": algorithm, **cell}, folder, told, read))
    if len({one.name for one in made}) < len(made):
        raise ValueError("--search: two values come to folders of the same name; search over one after the other")
    return made


def _for_a_path(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.+-]", "_", text)[-48:]


def run(algorithm: str, words: Sequence[str]) -> int:
    """Trains all that ``words`` say, tells what came of it, and gives the exit status.

    Raises:
        ValueError: If the words do not go together, the folder has something else, or a training fails.
        ClusterError: If one cannot be run on the cluster.

    """
    options = parser(algorithm).parse_args(words)
    folder: Path = options.output
    if not (options.seeds or options.search):
        raise ValueError("--workers and --on are for several trainings: say which, with --seeds or --search")
    if options.on and options.workers:
        raise ValueError("--workers are this machine's and --on is a cluster: leave one of them out")
    if options.export:
        raise ValueError("--export is for one training: `lockstep export DIR` of a folder in runs")
    made = grid(algorithm, words)
    if (folder / SETTING).exists():
        raise ValueError(f"{folder} has a training that is no search; name another folder")
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
    tell(table, folder)
    return 0


def _key(cell: Cell) -> tuple[Any, ...]:
    return tuple(cell.items())


def _folder(folder: Path, one: Training) -> Path:
    return folder / "runs" / one.name


def _train_there(address: str, folder: Path, made: Sequence[Training], keep: Keep) -> None:
    """Trains on a cluster; all that can be are, whatever fails of the others."""
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
    """What came of a training, as the card of its model has it: of either codec, and the mean of both."""
    algorithm = one.cell["algorithm"]
    model = _folder(folder, one) / f"{algorithm}.onnx"
    card = json.loads(model.with_suffix(".json").read_bytes())
    row = {"model": str(model.relative_to(folder)), "training_seconds": card["training_seconds"]}
    scores = {codec: card["scores"].get(f"{algorithm}, {codec}") for codec in CODECS}
    if all(scores.values()):
        row |= {name: sum(of[name] for of in scores.values()) / len(CODECS) for name in MEASURES}
        row |= {f"{name}_{codec}": value for codec, of in scores.items() for name, value in of.items()}
    return row


def tell(table: polars.DataFrame, folder: Path) -> None:
    """Prints each setting, the best first, means over seeds with their intervals; and the best training."""
    if BEST_BY not in table.columns:
        print("nothing was judged (--judged 0): which is the best, nothing says")
        return
    searched = table.columns[: table.columns.index("model")]
    settings = [name for name in searched if name not in {"algorithm", "seed"}] or ["algorithm"]
    say(summary(table, settings, list(SHOWN)).sort(BEST_BY, descending=True), settings, SHOWN, {})
    best = table.sort(BEST_BY, descending=True, maintain_order=True).row(0, named=True)
    words = ", ".join(f"{name} {best[name]}" for name in searched[1:])
    print(f"best of {len(table)}: {words}, QoE_d {best[BEST_BY]:.3f}: {folder / best['model']}")
