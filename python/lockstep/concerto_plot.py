"""`lockstep-concerto-plot`: what `lockstep study concerto --json` wrote, as a plot.

For each of the three controls that all sources were run under: how the bit rate comes back after the capacity has
fallen and returned, as a share of the capacity, in the mean over links and seeds.
"""

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path

import altair
import polars

from lockstep.charts import Plot
from lockstep.sweep_plot import COLOURS, SweepPlotError, render

RETURN = 60
"""When the capacity is back, seconds into the call."""
SOURCES = ["full throttle", "frames (pauses alone)", "video", "video, padded to the target"]
"""Those that are drawn."""


class ConcertoPlotError(Exception):
    """The file is none of the study's; says why."""


def load(path: Path) -> polars.DataFrame:
    """The shares of the capacity that came through, a row for each control, source and second since the return.

    Raises:
        ConcertoPlotError: if the file does not hold what the study writes.

    """
    shares: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    try:
        for row in json.loads(path.read_text())["recoveries"]:
            rates = list(zip(row["received_bps"], row["capacity_bps"], strict=True))
            for second, (received, capacity) in enumerate(rates[RETURN - 30 :], start=-30):
                if row["source"] in SOURCES and capacity > 0:
                    shares[row["control"], row["source"], second].append(100 * received / rates[-1][1])
    except (ValueError, KeyError, TypeError, IndexError, ZeroDivisionError) as error:
        raise ConcertoPlotError(f"{path}: not what lockstep study concerto --json writes ({error!r})") from error
    rows = [
        {"control": control, "source": source, "second": second, "share": sum(of) / len(of)}
        for (control, source, second), of in shares.items()
    ]
    if not rows:
        raise ConcertoPlotError(f"{path}: holds no calls whose capacity returns")
    table = polars.DataFrame(rows)
    # Only controls with every source: of the others the study has two.
    whole = table.group_by("control").agg(polars.col("source").n_unique()).filter(polars.col("source") == len(SOURCES))
    return table.filter(polars.col("control").is_in(whole["control"].to_list()))


def chart(table: polars.DataFrame) -> Plot:
    """A plot for each control, a line for each source."""
    lines = (
        altair.Chart(table)
        .mark_line(strokeWidth=2)
        .encode(
            x=altair.X("second:Q", axis=altair.Axis(title="s since the capacity is back", titleFontWeight="normal")),
            y=altair.Y("share:Q", axis=altair.Axis(title=None, tickCount=6)),
            color=altair.Color(
                "source:N",
                scale=altair.Scale(domain=SOURCES, range=COLOURS[: len(SOURCES)]),
                legend=altair.Legend(title=None, orient="top"),
            ),
        )
        .properties(width=820, height=220)
    )
    subtitle = "% of the capacity, mean over links and seeds"
    title = altair.Title("How the bit rate comes back under GCC", subtitle=subtitle, offset=14)
    facet = altair.Facet("control:N", sort=None, header=altair.Header(title=None, labelAnchor="start"))
    faceted: altair.FacetChart = lines.facet(facet=facet, columns=1).properties(title=title)
    return faceted


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; gives its exit status."""
    parser = argparse.ArgumentParser(prog="lockstep-concerto-plot", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument("numbers", type=Path, help="what `lockstep study concerto --json` wrote")
    parser.add_argument("--output", type=Path, default=Path("concerto.html"), help="a .html or a .png (concerto.html)")
    options = parser.parse_args(arguments)
    try:
        options.output.write_bytes(render(chart(load(options.numbers)), options.output))
    except (ConcertoPlotError, SweepPlotError, OSError) as error:
        print(f"lockstep-concerto-plot: {error}", file=sys.stderr)
        return 1
    print(f"plot: {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
