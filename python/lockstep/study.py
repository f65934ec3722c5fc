"""Common parts of studies: cells that run once and are kept, tables of means with confidence intervals, plots.

A study has a folder. Each finished cell becomes a line in the folder's journal at once, so an interrupted study
resumes there. In the end the folder contains the table as Parquet, and the plots.
"""

import argparse
import json
import math
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import altair
import polars

from lockstep.argument_types import whole
from lockstep.charts import Plot
from lockstep.figure import COLOURS, colours, write_figures
from lockstep.intervals import mean_interval
from lockstep.module_command import print_text
from lockstep.side_by_side import LOOK_SECONDS, side_by_side

Cell = Mapping[str, Any]
"""Names and values that fully identify a call or a training."""
Measures = Mapping[str, Any]
"""Results of a cell."""

Keep = Callable[[Cell, Measures], None]
"""Callback for each finished cell."""

FINISHED = "finished"
"""File in a training's folder that marks it as finished."""
MAX_WORKERS = 1_000
"""Largest number of workers; each is a thread."""
BUDGETS = ("small", "full")
"""Sizes of a study: shortened trainings, or full ones."""
PAPER_BUDGETS = (*BUDGETS, "paper")
"""The sizes of a study that also has the paper's own: its lengths, runs and episodes."""
TRIED_SECONDS = 2.0
"""Length of a trial call with pixels, seconds. Its run time gives the estimate of a study."""


@dataclass(frozen=True, slots=True)
class Work:
    """Equal cells that a study is about to run."""

    what: str
    """Name of the cells, plural."""
    cells: int
    """Number of unfinished cells."""
    seconds: float
    """Estimated time of a cell, seconds."""
    workers: int = 1
    """Cells that run at once."""


def add_arguments(parser: argparse.ArgumentParser, name: str, budgets: Sequence[str] = BUDGETS) -> None:
    """Adds the arguments of every study, which has these budgets."""
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("out/studies") / name,
        metavar="DIR",
        help="folder of the study (%(default)s)",
    )
    parser.add_argument("--budget", choices=budgets, default="small", help="size of the study (%(default)s)")
    parser.add_argument(
        "--seeds", type=whole(1), default=None, metavar="COUNT", help="number of seeds for each cell, from 1 on"
    )
    parser.add_argument("--workers", type=whole(1, MAX_WORKERS), default=2, help="cells that run at once (%(default)s)")
    parser.add_argument("--fresh", action="store_true", help="discard the results in the folder and start again")


class Study:
    """A study in its folder."""

    def __init__(  # noqa: PLR0913
        self,
        name: str,
        folder: Path,
        *,
        fresh: bool = False,
        quiet: bool = False,
        kind: str = "study",
        is_over: Callable[[Mapping[str, Any]], bool] = lambda _: True,
    ) -> None:
        """Opens the folder and reads the finished cells: those for whose measures ``is_over`` is true."""
        self._kind = kind
        self.name = name
        self.folder = folder
        self.quiet = quiet
        self._interrupted = threading.Event()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._reported: list[str] = []
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{name}.journal"
        if fresh:
            self._path.unlink(missing_ok=True)
        self._rows: dict[Hashable, dict[str, Any]] = {}
        torn = False
        if self._path.exists():
            text = self._path.read_text(errors="replace")
            torn = bool(text) and not text.endswith("\n")
            for line in text.splitlines():
                try:
                    kept = json.loads(line)
                    if is_over(kept["measures"]):
                        self._rows[_key(kept["cell"])] = kept["measures"]
                except (ValueError, KeyError, TypeError):
                    continue  # incomplete last line of a killed study
        if torn:
            with self._path.open("a") as journal:
                journal.write("\n")

    def unfinished(self, cells: Sequence[Cell]) -> list[Cell]:
        """The cells without a kept result."""
        return [cell for cell in cells if _key(cell) not in self._rows]

    def announce(self, works: Sequence[Work]) -> None:
        """Prints the amount of the whole study and its estimated time, before the first cell."""
        open_works = [work for work in works if work.cells > 0]
        if self.quiet or not open_works:
            return
        amounts = ", ".join(f"{work.cells} {work.what}" for work in open_works)
        seconds = sum(math.ceil(work.cells / work.workers) * work.seconds for work in open_works)
        print(f"{self._kind} {self.name}: {amounts}; about {rough_time(seconds)} in all", file=sys.stderr)

    def run(self, cells: Sequence[Cell], measure: Callable[[Cell], Measures], workers: int = 1) -> polars.DataFrame:
        """Runs ``measure`` on each unfinished cell; returns all cells as rows, in order.

        A cell must contain everything that its measures depend on, with the contents of files as hashes. A kept cell
        with equal values counts as the same.
        """

        def here(open_cells: Sequence[Cell], keep: Keep) -> None:
            side_by_side(open_cells, measure, workers, keep=keep, end=self._end_processes)

        return self.take(cells, here)

    def take(self, cells: Sequence[Cell], run_all: Callable[[Sequence[Cell], Keep], None]) -> polars.DataFrame:
        """As :meth:`run`, but ``run_all`` runs the unfinished cells and passes each with its measures to ``keep``."""
        open_cells = self.unfinished(cells)
        began, done = time.monotonic(), len(cells) - len(open_cells)
        if not self.quiet:
            finished = f", {done} of them finished earlier" if done else ""
            left = "; the first to finish gives the time left" if open_cells else ""
            print(f"{self._kind} {self.name}: {len(cells)} cells{finished}{left}", file=sys.stderr)
        count = 0

        def keep(cell: Cell, measures: Measures) -> None:
            nonlocal count
            count += 1
            self._keep(cell, measures)
            left = time_left(time.monotonic() - began, count, len(open_cells))
            self._show(f"{done + count} of {len(cells)} cells, {left}")

        if open_cells:
            run_all(open_cells, keep)
        if open_cells and not self.quiet and sys.stderr.isatty():
            sys.stderr.write("\n")
        return polars.DataFrame([{**cell, **self._rows[_key(cell)]} for cell in cells], infer_schema_length=None)

    def _keep(self, cell: Cell, measures: Mapping[str, Any]) -> None:
        line = json.dumps({"cell": dict(cell), "measures": dict(measures)})
        with self._path.open("a") as journal:
            journal.write(line + "\n")
        self._rows[_key(cell)] = json.loads(line)["measures"]

    def _show(self, text: str) -> None:
        if self.quiet:
            return
        text = f"{self._kind} {self.name}: {text}"
        sys.stderr.write(f"\r\x1b[2K{text}" if sys.stderr.isatty() else f"{text}\n")
        sys.stderr.flush()

    def report(self, text: str) -> None:
        """Prints a result of a part; :meth:`write` saves the text next to the part's rows."""
        print_text(text, sys.stdout)
        self._reported.append(text)

    def write(self, part: str, table: polars.DataFrame, plots: Mapping[str, Plot] | None = None) -> None:
        """Writes a part's rows as Parquet, its printed results as text, and its plots in all formats."""
        temporary = self.folder / f"{part}.parquet.new"
        table.write_parquet(temporary)
        temporary.replace(self.folder / f"{part}.parquet")
        names = [f"{part}.parquet"]
        if self._reported:
            names.append(f"{part}.txt")
            (self.folder / names[-1]).write_text("\n".join(self._reported) + "\n")
            self._reported.clear()
        write_figures(plots or {}, self.folder)
        names += [f"{name}.html" for name in plots or {}]
        print(f"{part}: {self.folder / names[0]}, {', '.join(names[1:])}".removesuffix(", "))

    def train(self, algorithm: str, run: str, arguments: Sequence[str]) -> Path:
        """Trains in a separate process, resumes from a checkpoint if there is one, and returns the model.

        Raises:
            ValueError: If the training fails; its log has the reason.

        """
        folder = self.folder / "runs" / run
        model = folder / f"{algorithm}.onnx"
        if not (folder / FINISHED).exists():
            words = [sys.executable, "-m", "lockstep.learn", algorithm, "--output", str(folder), "--quiet", *arguments]
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / "training.log").open("ab") as log:
                status = self.run_process(words, log, log)
            if status != 0 or not model.exists():
                raise ValueError(f"the training in {folder} failed with status {status}; see training.log there")
            (folder / FINISHED).touch()
        return model

    def run_process(self, words: Sequence[str], output: IO[bytes], errors: IO[bytes]) -> int:
        """Runs a program and returns its status; an interruption of the study ends the program, too."""
        process = subprocess.Popen(words, stdout=output, stderr=errors)  # noqa: S603
        self._processes.add(process)
        try:
            if self._interrupted.is_set():
                self._end_processes()
            while process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(LOOK_SECONDS)
        except BaseException:
            self._end_processes()
            raise
        finally:
            self._processes.discard(process)
        if self._interrupted.is_set():
            raise KeyboardInterrupt
        return process.returncode

    def _end_processes(self) -> None:
        """Ends all running and starting programs; trainings resume later from their last checkpoints."""
        self._interrupted.set()
        ending = list(self._processes)
        for process in ending:
            process.terminate()
        for process in ending:
            try:
                process.wait(2.0)
            except subprocess.TimeoutExpired:
                process.kill()


def timed(run: Callable[[], object], share: float = 1.0) -> float:
    """The estimated time of a whole cell, seconds: that of ``run``, which does ``share`` of it."""
    began = time.monotonic()
    run()
    return (time.monotonic() - began) / share


def rough_time(seconds: float) -> str:
    """A time in seconds, minutes or hours."""
    if seconds < 120.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 7200.0 else f"{seconds / 3600.0:.1f} h"


def time_left(seconds: float, count: int, total: int) -> str:
    """The time that ``count`` of ``total`` equal steps took, and the estimate for the others."""
    return f"{seconds:.0f} s, {seconds / count * (total - count):.0f} s left"


def summary(
    table: polars.DataFrame, by: Sequence[str], measures: Sequence[str], over: str = "seed"
) -> polars.DataFrame:
    """One row for each value of ``by``: each measure's mean over ``over``, and ``_half``, half its interval.

    Other columns, such as traces, are averaged first, so that the interval is over seeds.
    """
    rows = []
    for names, group in table.group_by(by, maintain_order=True):
        row: dict[str, Any] = dict(zip(by, names, strict=True))
        seeds = group.group_by(over, maintain_order=True).agg(polars.col(list(measures)).mean())
        for measure in measures:
            row[measure], row[f"{measure}_half"] = mean_interval(seeds[measure].to_list())
        row["calls"] = len(group)
        rows.append(row)
    return polars.DataFrame(rows, infer_schema_length=None)


def words(
    summarised: polars.DataFrame, by: Sequence[str], measures: Mapping[str, int], printed: Mapping[str, str]
) -> str:
    """A table as text: one line for each row, measures with this number of digits, and values of a paper.

    ``printed`` has the paper's values by the first column of ``by``; without it the column is missing.
    """
    widths = [max(len(name), *(len(str(value)) for value in summarised[name])) for name in by]
    heading = "  ".join(f"{name:<{width}}" for name, width in zip(by, widths, strict=True))
    lines = [heading + "".join(f"{name:>24}" for name in measures) + ("   the paper" if printed else "")]
    for row in summarised.iter_rows(named=True):
        line = "  ".join(f"{row[name]!s:<{width}}" for name, width in zip(by, widths, strict=True))
        for name, digits in measures.items():
            line += f"{own(row, name, digits):>24}"
        lines.append(line + (f"   {printed.get(str(row[by[0]]), '-')}" if printed else ""))
    return "\n".join([*lines, ""])


def own(row: Mapping[str, Any], measure: str, digits: int) -> str:
    """A row's mean of a measure, with half its interval; a dash if undefined."""
    mean, half = row[measure], row[f"{measure}_half"]
    if not math.isfinite(mean):
        return "-"
    return f"{mean:.{digits}f}" + (f" ± {half:.{digits}f}" if math.isfinite(half) else "")


def print_table(
    summarised: polars.DataFrame, by: Sequence[str], measures: Mapping[str, int], printed: Mapping[str, str]
) -> None:
    """Prints the table that :func:`words` makes."""
    print_text(words(summarised, by, measures, printed), sys.stdout)


def chart(summarised: polars.DataFrame, by: Sequence[str], measures: Mapping[str, str], title: str) -> Plot:
    """Means with their intervals, one panel for each measure; the first of ``by`` is the axis, the second a colour."""
    long = summarised.unpivot(list(measures), index=list(by), variable_name="measure", value_name="mean")
    halves = summarised.unpivot([f"{name}_half" for name in measures], index=list(by), value_name="half")
    long = long.with_columns(
        (polars.col("mean") - halves["half"].fill_nan(0.0)).alias("low"),
        (polars.col("mean") + halves["half"].fill_nan(0.0)).alias("high"),
    )
    colour: Any = altair.value(COLOURS[0])
    offset: dict[str, Any] = {}
    if len(by) > 1:
        values = summarised[by[1]].unique(maintain_order=True).to_list()
        scale = altair.Scale(domain=values, range=colours(values))
        colour = altair.Color(f"{by[1]}:N", scale=scale, legend=altair.Legend(title=None, orient="top", labelLimit=0))
        offset = {"yOffset": altair.YOffset(f"{by[1]}:N")}
    order = [str(name) for name in summarised[by[0]].unique(maintain_order=True)]
    panels = []
    for name, unit in measures.items():
        base = altair.Chart(long.filter(polars.col("measure") == name)).encode(
            y=altair.Y(f"{by[0]}:N", title=None, sort=order), color=colour, **offset
        )
        x = altair.Scale(zero=False, nice=False, padding=16)
        axis = altair.Axis(title=unit, titleFontWeight="normal", grid=True, tickCount=5)
        lines = base.mark_rule(strokeWidth=2).encode(x=altair.X("low:Q", scale=x, axis=axis), x2="high:Q")
        points = base.mark_point(filled=True, size=80, opacity=1).encode(x=altair.X("mean:Q", scale=x, axis=axis))
        panels.append(altair.layer(lines, points).properties(width=300, height=34 * len(order) + 20))
    subtitle = "means with their 95 % confidence intervals over seeds"
    plot: Plot = altair.hconcat(*panels).properties(
        title=altair.Title(title, subtitle=subtitle, fontSize=16, offset=14)
    )
    return plot


def _key(cell: Cell) -> Hashable:
    return json.dumps(dict(cell), sort_keys=True)
