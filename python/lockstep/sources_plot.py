"""`lockstep-sources-plot`: plots the JSON of `lockstep sources --json`.

Shows how the bit rate recovers after the capacity has fallen and returned, as a share of the capacity. One plot for
each control under which all sources ran: the mean over links with its 95 % confidence interval over seeds.
"""

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import altair
import polars

from lockstep.charts import Plot
from lockstep.figure import COLOURS, FigureError, render
from lockstep.input_file import read_bounded
from lockstep.intervals import mean_interval
from lockstep.module_command import ArgumentParser, print_error

RETURN = 60
"""Time in the call at which the capacity returns, seconds."""
BEFORE = 30
"""Seconds that the plot includes before the return."""
SOURCES = ["full throttle", "frames (pauses alone)", "video", "video, padded to the target"]
"""Sources in the plot."""


class SourcesPlotError(Exception):
    """The file is not a document of the command; the message gives the reason."""


def shares(row: Mapping[str, Any]) -> list[float]:
    """Received share of the returned capacity, percent, second by second.

    The series begins :data:`BEFORE` seconds before the capacity returns. ``row`` is one of the document's recoveries.
    """
    received, capacity = row["received_bps"], row["capacity_bps"]
    return [round(100 * rate / capacity[-1], 1) for rate in received[RETURN - BEFORE :]]


def load(path: Path) -> polars.DataFrame:
    """The calls over links whose capacity returns: control, source, seed and shares (:func:`shares`).

    Raises:
        SourcesPlotError: If the file is not a document of the command.

    """
    try:
        rows = [
            {
                "control": str(row["control"]),
                "source": str(row["source"]),
                "seed": int(row["seed"]),
                "share": shares(row),
            }
            for row in json.loads(read_bounded(path))["recoveries"]
        ]
    except (ValueError, KeyError, TypeError, IndexError, ZeroDivisionError) as error:
        raise SourcesPlotError(f"cannot read {path} as a document of lockstep sources --json: {error!r}") from error
    if not rows:
        raise SourcesPlotError(f"cannot plot {path}: no call has a capacity that returns")
    return polars.DataFrame(rows)


def curves(calls: polars.DataFrame) -> polars.DataFrame:
    """Received share by control, source and second since the return: mean and interval over seeds.

    Includes only controls that have every source in the plot.
    """
    drawn = calls.filter(polars.col("source").is_in(SOURCES))
    whole = drawn.group_by("control").agg(polars.col("source").n_unique()).filter(polars.col("source") == len(SOURCES))
    # Average over links first, so that the interval is over seeds.
    by_seed = (
        drawn.filter(polars.col("control").is_in(whole["control"].to_list()))
        .with_columns(second=polars.int_ranges(polars.col("share").list.len()) - BEFORE)
        .explode("share", "second")
        .group_by("control", "source", "second", "seed", maintain_order=True)
        .agg(polars.col("share").mean())
    )
    rows = []
    for (control, source, second), group in by_seed.group_by("control", "source", "second", maintain_order=True):
        mean, half = mean_interval(group["share"].to_list())
        half = half if math.isfinite(half) else 0.0
        rows.append({"control": control, "source": source, "second": second, "share": mean,
                     "low": mean - half, "high": mean + half})  # fmt: skip
    return polars.DataFrame(rows)


def chart(table: polars.DataFrame, title: str = "How the bit rate comes back under GCC") -> Plot:
    """One plot of :func:`curves` for each control, with one line and one band for each source."""
    base = altair.Chart(table).encode(
        x=altair.X("second:Q", axis=altair.Axis(title="s since the capacity returned", titleFontWeight="normal")),
        color=altair.Color(
            "source:N",
            scale=altair.Scale(domain=SOURCES, range=COLOURS[: len(SOURCES)]),
            legend=altair.Legend(title=None, orient="top", symbolOpacity=1.0),
        ),
    )
    axis = altair.Axis(title=None, tickCount=6)
    bands = base.mark_area(opacity=0.2).encode(y=altair.Y("low:Q", axis=axis), y2="high:Q")
    lines = base.mark_line(strokeWidth=2).encode(y=altair.Y("share:Q", axis=axis))
    both = altair.layer(bands, lines).properties(width=820, height=220)
    subtitle = "% of the capacity: mean over links with its 95 % confidence interval over seeds"
    facet = altair.Facet("control:N", sort=None, header=altair.Header(title=None, labelAnchor="start"))
    faceted: altair.FacetChart = both.facet(facet=facet, columns=1).properties(
        title=altair.Title(title, subtitle=subtitle, offset=14)
    )
    return faceted


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = ArgumentParser(prog="lockstep-sources-plot", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument("numbers", type=Path, help="document of `lockstep sources --json`")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("sources.html"),
        help="file for the plot: .html, .png, .svg, .pdf or .csv (sources.html)",
    )
    options = parser.parse_args(arguments)
    try:
        table = curves(load(options.numbers))
        if table.is_empty():
            raise SourcesPlotError(f"cannot plot {options.numbers}: no control has every source of the plot")
        options.output.write_bytes(render(chart(table), options.output))
    except (SourcesPlotError, FigureError, OSError) as error:
        print_error("lockstep-sources-plot", error)
        return 1
    print(f"plot: {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
