"""What every study has: cells that are run once and kept, a table of means with confidence intervals, a plot.

A study has a folder. Every cell that is over is a line in its journal at once, so that a study that was ended goes on
where it was; at the end the folder has the table as Parquet, and the plots.
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
from pathlib import Path
from typing import IO, Any

import altair
import polars

from lockstep.argument_types import whole
from lockstep.charts import Plot
from lockstep.intervals import mean_interval
from lockstep.side_by_side import LOOK_SECONDS, side_by_side
from lockstep.sweep_plot import COLOURS, render

Cell = Mapping[str, Any]
"""What a cell is: names and values that say which call or training, and nothing else does."""
Measures = Mapping[str, Any]
"""What came of a cell."""

Keep = Callable[[Cell, Measures], None]
"""What is told of each cell that is over."""

FINISHED = "finished"
"""The file of a training's folder that says that it is over."""
MOST_WORKERS = 1_000
"""Each is a thread."""
BUDGETS = ("small", "full")
"""How much is run: trainings cut short, or all as it should be."""


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    """The arguments that every study has."""
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("out/studies") / name,
        metavar="DIR",
        help="folder of the study (%(default)s)",
    )
    parser.add_argument("--budget", choices=BUDGETS, default="small", help="how much is run (%(default)s)")
    parser.add_argument("--seeds", type=whole(1), default=None, metavar="COUNT", help="seeds of each cell, from 1 on")
    parser.add_argument(
        "--workers", type=whole(1, MOST_WORKERS), default=2, help="cells that run at once (%(default)s)"
    )
    parser.add_argument("--fresh", action="store_true", help="begin anew, whatever the folder has")


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
        """Opens the folder, and reads which cells are over: those whose measures ``is_over`` holds of."""
        self._kind = kind
        self.name = name
        self.folder = folder
        self.quiet = quiet
        self._interrupted = threading.Event()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._said: list[str] = []
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
                    continue  # the last line of a study that was killed
        if torn:
            with self._path.open("a") as journal:
                journal.write("\n")

    def run(self, cells: Sequence[Cell], measure: Callable[[Cell], Measures], workers: int = 1) -> polars.DataFrame:
        """Runs ``measure`` on each of ``cells`` that is not over yet; gives all of them as rows, in their order.

        A cell has to say all that its measures depend on, the contents of files as their hashes: what is kept under the
        same words is taken for the same.
        """

        def here(open_cells: Sequence[Cell], keep: Keep) -> None:
            side_by_side(open_cells, measure, workers, keep=keep, end=self._end_processes)

        return self.take(cells, here)

    def take(self, cells: Sequence[Cell], run_all: Callable[[Sequence[Cell], Keep], None]) -> polars.DataFrame:
        """The same where ``run_all`` runs those that are not over, and gives each with its measures to be kept."""
        open_cells = [cell for cell in cells if _key(cell) not in self._rows]
        began, done = time.monotonic(), len(cells) - len(open_cells)
        if done and not self.quiet:
            print(f"{done} of {len(cells)} cells are over already", file=sys.stderr)
        count = 0

        def keep(cell: Cell, measures: Measures) -> None:
            nonlocal count
            count += 1
            self._keep(cell, measures)
            seconds = time.monotonic() - began
            left = seconds / count * (len(open_cells) - count)
            self._show(f"{done + count} of {len(cells)} cells, {seconds:.0f} s, {left:.0f} s left")

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

    def say(self, text: str) -> None:
        """Prints what a part has found; :meth:`write` keeps it beside the part's rows."""
        print(text)
        self._said.append(text)

    def write(self, part: str, table: polars.DataFrame, plots: Mapping[str, Plot] | None = None) -> None:
        """Writes a part's rows as Parquet, what was said of them as text, and its plots as pages and pictures."""
        temporary = self.folder / f"{part}.parquet.new"
        table.write_parquet(temporary)
        temporary.replace(self.folder / f"{part}.parquet")
        names = [f"{part}.parquet"]
        if self._said:
            names.append(f"{part}.txt")
            (self.folder / names[-1]).write_text("\n".join(self._said) + "\n")
            self._said.clear()
        for name, plot in (plots or {}).items():
            for kind in (".html", ".png"):
                path = self.folder / f"{name}{kind}"
                path.write_bytes(render(plot, path))
            names.append(f"{name}.html")
        print(f"{part}: {self.folder / names[0]}, {', '.join(names[1:])}".removesuffix(", "))

    def train(self, algorithm: str, run: str, arguments: Sequence[str]) -> Path:
        """Trains in a process of its own, goes on from its checkpoint, and gives the model.

        Raises:
            ValueError: If the training fails; it has said why.

        """
        folder = self.folder / "runs" / run
        model = folder / f"{algorithm}.onnx"
        if not (folder / FINISHED).exists():
            words = [sys.executable, "-m", "lockstep.learn", algorithm, "--output", str(folder), "--quiet", *arguments]
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / "training.log").open("ab") as log:
                status = self.run_process(words, log, log)
            if status != 0 or not model.exists():
                raise ValueError(f"the training in {folder} ended with status {status}; training.log there says why")
            (folder / FINISHED).touch()
        return model

    def run_process(self, words: Sequence[str], output: IO[bytes], errors: IO[bytes]) -> int:
        """Runs a program until it ends, and gives its status; an interruption of the study ends it, too."""
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
        """Ends all programs that run, and those that are about to: trainings go on from their last checkpoints."""
        self._interrupted.set()
        ending = list(self._processes)
        for process in ending:
            process.terminate()
        for process in ending:
            try:
                process.wait(2.0)
            except subprocess.TimeoutExpired:
                process.kill()


def summary(
    table: polars.DataFrame, by: Sequence[str], measures: Sequence[str], over: str = "seed"
) -> polars.DataFrame:
    """One row for each value of ``by``: of each measure the mean over ``over``, and ``_half``, half its interval.

    What is not in ``by`` or ``over``, such as traces, is averaged first: an interval says how far another seed may be.
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
    """A table: a line for each row, measures with so many digits, and what ``printed`` has beside it.

    ``printed`` has words by the first of ``by``; none if there is nothing to be said of them.
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
    """A row's mean of a measure, with half its interval if it has one; a dash where there is no such thing."""
    mean, half = row[measure], row[f"{measure}_half"]
    if not math.isfinite(mean):
        return "-"
    return f"{mean:.{digits}f}" + (f" ± {half:.{digits}f}" if math.isfinite(half) else "")


def say(
    summarised: polars.DataFrame, by: Sequence[str], measures: Mapping[str, int], printed: Mapping[str, str]
) -> None:
    """Prints the table that :func:`words` makes."""
    print(words(summarised, by, measures, printed))


def chart(summarised: polars.DataFrame, by: Sequence[str], measures: Mapping[str, str], title: str) -> Plot:
    """Means with their intervals, a panel for each measure; the first of ``by`` is at the side, the second a colour."""
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
        scale = altair.Scale(domain=values, range=[COLOURS[index % len(COLOURS)] for index in range(len(values))])
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
    subtitle = "means, and their 95 % confidence intervals over seeds"
    plot: Plot = altair.hconcat(*panels).properties(
        title=altair.Title(title, subtitle=subtitle, fontSize=16, offset=14)
    )
    return plot


def _key(cell: Cell) -> Hashable:
    return json.dumps(dict(cell), sort_keys=True)
