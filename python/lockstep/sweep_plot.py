"""`lockstep-sweep-plot`: delay against quality or rate of every call of sweeps, by controller and codec."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import altair
import polars

from lockstep.charts import Plot
from lockstep.figure import FigureError, colours, render
from lockstep.input_file import bounded
from lockstep.intervals import mean_interval
from lockstep.module_command import ArgumentParser, print_error

SHAPES = ["circle", "square", "triangle-up", "diamond", "cross"]
"""Shapes of the codecs."""

DELAY = "video_delay_ms_p95"
"""Column of the horizontal axis; lower delay is to the right as in Salsify's figures (NSDI 2018, figure 6)."""


@dataclass(frozen=True)
class Measure:
    """A column for the vertical axis."""

    column: str
    title: str
    unit: str
    scale: float = 1.0


MEASURES = {
    "ssim": Measure("ssim_db_mean", "SSIM", "dB, mean"),
    "throughput": Measure("throughput_bps", "Throughput", "Mb/s", 1e-6),
    "utilisation": Measure("link_utilisation", "Link utilisation", "% of the link's capacity", 100.0),
    "vmaf": Measure("vmaf", "VMAF", "0 to 100"),
    "qoe": Measure("qoe_d", "QoE", "Concerto's, weighted for delay"),
}
"""Columns for the vertical axis, by name."""

IDENTITY = ("controller", "model", "model_hash", "estimator", "estimator_hash")
"""The columns that identify a controller. Tables of earlier versions have no `name` column."""


class SweepPlotError(Exception):
    """The table cannot be plotted; the message gives the reason."""


def load(path: Path, measure: Measure) -> polars.DataFrame:
    """The calls of the sweep at `path` that have both a delay and a value of `measure`.

    Columns: controller (by name), codec, trace, seed, delay (ms), value (in the measure's unit), and identity
    (the columns of `IDENTITY` joined).

    Raises:
        SweepPlotError: If the file cannot be read, is another table, or has no such call.

    """
    try:
        table = polars.read_parquet(bounded(path))
        needed = ["controller", "codec", "trace", "seed", DELAY, measure.column]
        if missing := [name for name in needed if name not in table.columns]:
            raise SweepPlotError(f"cannot read {path} as a table of `lockstep sweep`: column {missing[0]} is missing")
        identity = [polars.col(name).cast(polars.String).fill_null("") for name in IDENTITY if name in table.columns]
        calls = table.select(
            polars.col("name" if "name" in table.columns else "controller").cast(polars.String).alias("controller"),
            polars.col("codec", "trace").cast(polars.String),
            polars.col("seed").cast(polars.Int64),
            polars.col(DELAY).cast(polars.Float64).round(2).alias("delay"),
            (polars.col(measure.column).cast(polars.Float64) * measure.scale).round(4).alias("value"),
            polars.concat_str(identity, separator="|").alias("identity"),
        )
    except OSError as error:
        raise SweepPlotError(f"cannot read {path}: {error.strerror or error}") from error
    except polars.exceptions.PolarsError as error:
        reason = str(error).partition("\n")[0]
        raise SweepPlotError(f"cannot read {path} as a table of `lockstep sweep`: {reason}") from error
    calls = calls.filter(polars.col("delay") > 0, polars.col("delay", "value").is_finite())
    if calls.is_empty():
        raise SweepPlotError(f"cannot plot {path}: no call has both a video delay and a value of {measure.column}")
    return calls


def joined(sweeps: Sequence[Path], measure: Measure) -> polars.DataFrame:
    """The calls of all ``sweeps``. A name with different meanings in them is followed by its sweep's name.

    Raises:
        SweepPlotError: As :func:`load`.

    """
    labelled = [load(sweep, measure).with_columns(polars.lit(str(sweep)).alias("sweep")) for sweep in sweeps]
    is_shared = polars.col("identity").n_unique().over("controller") > 1
    with_sweep = polars.format("{} ({})", "controller", "sweep")
    names = polars.when(is_shared).then(with_sweep).otherwise("controller").alias("controller")
    return polars.concat(labelled).with_columns(names).drop("identity", "sweep")


def summary(calls: polars.DataFrame) -> polars.DataFrame:
    """Means of each controller and codec, with the 95 % interval over seeds; null with one seed.

    Columns: controller, codec, delay, value, calls, delay_interval, value_interval.
    """
    groups = ["controller", "codec"]
    means = calls.group_by(groups, maintain_order=True).agg(
        polars.col("delay").mean().round(2), polars.col("value").mean().round(4), polars.len().alias("calls")
    )
    # Traces are the same for each seed, so seeds are the independent samples.
    of_seeds = calls.group_by([*groups, "seed"], maintain_order=True).agg(polars.col("delay", "value").mean())
    rows = []
    for (controller, codec), seeds in of_seeds.group_by(groups, maintain_order=True):
        intervals = {f"{name}_interval": mean_interval(seeds[name].to_list())[1] for name in ("delay", "value")}
        rows.append({"controller": controller, "codec": codec, **intervals})
    kinds = dict.fromkeys(("delay_interval", "value_interval"), polars.Float64)
    found = polars.DataFrame(rows, schema={"controller": polars.String, "codec": polars.String, **kinds})
    return means.join(found, on=groups, how="left", maintain_order="left")


def latex(calls: polars.DataFrame, measure: Measure) -> str:
    """The means as a LaTeX table (package booktabs), best value first."""
    lines = [r"\begin{tabular}{llrr}", r"\toprule"]
    unit = measure.unit.replace("%", r"\%")
    lines += [rf"controller & codec & p95 delay, ms & {measure.title}, {unit} \\", r"\midrule"]
    for row in summary(calls).sort("value", descending=True).iter_rows(named=True):
        names = [str(row[name]).replace("_", r"\_") for name in ("controller", "codec")]
        cells = []
        for name, digits in (("delay", 0), ("value", 2)):
            interval = row[f"{name}_interval"]
            known = interval is not None and math.isfinite(interval)
            cells.append(f"${row[name]:.{digits}f}" + (rf" \pm {interval:.{digits}f}$" if known else "$"))
        lines.append(" & ".join([*names, *cells]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def chart(calls: polars.DataFrame, measure: Measure) -> Plot:
    """A faint point for each call, and a large labelled one at the mean of each controller and codec."""
    groups = ["controller", "codec"]
    means = summary(calls)
    controllers, codecs = (sorted(calls[name].unique()) for name in groups)
    several = len(codecs) > 1
    range_of = colours(controllers)
    shapes = [SHAPES[index % len(SHAPES)] for index in range(len(codecs))]
    colour = altair.Color("controller:N", scale=altair.Scale(domain=controllers, range=range_of), legend=None)
    legend = altair.Legend(title=None, orient="top", symbolFillColor="#8a94a3", symbolOpacity=1)
    shape = altair.Shape("codec:N", scale=altair.Scale(domain=codecs, range=shapes), legend=legend if several else None)
    # A logarithmic axis, so that one very slow trace does not compress all others.
    x = altair.X(
        "delay:Q",
        scale=altair.Scale(type="log", reverse=True, nice=False, padding=30),
        axis=altair.Axis(
            title="video delay, p95, ms (better to the right)",
            titleFontWeight="normal",
            titleColor="#667080",
            grid=True,
            tickCount=8,
            labelFlush=False,
        ),
    )
    y = altair.Y(
        "value:Q",
        scale=altair.Scale(zero=False, padding=20),
        axis=altair.Axis(
            title=f"{measure.title}, {measure.unit}", titleFontWeight="normal", titleColor="#667080", tickCount=6
        ),
    )
    numbers = [
        altair.Tooltip("delay:Q", title="Video delay, p95, ms", format=".0f"),
        altair.Tooltip("value:Q", title=f"{measure.title}, {measure.unit}", format=".2f"),
    ]
    names = [altair.Tooltip(f"{name}:N", title=name.capitalize()) for name in groups]
    call = [altair.Tooltip("trace:N", title="Trace"), altair.Tooltip("seed:Q", title="Seed", format="d")]
    count = [altair.Tooltip("calls:Q", title="Mean of calls", format="d")]
    encoded = {"x": x, "y": y, "color": colour, "shape": shape}
    base = altair.Chart(means)
    label = "datum.controller" + (" + ', ' + datum.codec" if several and len(means) <= 8 else "")
    known = means.filter(polars.all_horizontal(polars.col("value_interval", "delay_interval").is_finite()))
    vertical, horizontal = (
        known.with_columns(
            polars.max_horizontal(polars.col(name) - polars.col(f"{name}_interval"), polars.lit(least)).alias(name),
            (polars.col(name) + polars.col(f"{name}_interval")).alias("end"),
        )
        for name, least in (("value", -math.inf), ("delay", 1.0))
    )
    layers = altair.layer(
        altair.Chart(calls).mark_point(filled=True, opacity=0.28, size=26).encode(
            **encoded, tooltip=[*names, *call, *numbers]
        ),
        base.mark_point(filled=True, opacity=1, size=190, stroke="white", strokeWidth=1.5).encode(
            **encoded, tooltip=[*names, *count, *numbers]
        ),
        base.transform_calculate(label=label)
        .mark_text(align="left", baseline="middle", dx=11, dy=-9, fontSize=12, fontWeight=600)
        .encode(x=x, y=y, color=colour, text="label:N"),
        altair.Chart(vertical).mark_rule(strokeWidth=1.5).encode(x=x, y=y, y2="end:Q", color=colour),
        altair.Chart(horizontal).mark_rule(strokeWidth=1.5).encode(x=x, x2="end:Q", y=y, color=colour),
    )  # fmt: skip
    subtitle = f"{measure.unit}; small points: {len(calls)} calls; large points: means, with 95 % intervals over seeds"
    title = altair.Title(f"{measure.title} against video delay", subtitle=subtitle, fontSize=16, offset=14)
    return layers.properties(width=820, height=460, title=title)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = ArgumentParser(prog="lockstep-sweep-plot", description=__doc__.partition(": ")[2])
    parser.add_argument(
        "sweeps",
        type=Path,
        nargs="+",
        metavar="SWEEP",
        help="table of `lockstep sweep --output`; the plot shows the calls of all tables",
    )
    parser.add_argument("--against", choices=MEASURES, default="ssim", help="measure on the vertical axis (ssim)")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("sweep.html"),
        help="file for the plot: .html, .png, .svg, .pdf, .csv, or .tex for a table (sweep.html)",
    )
    options = parser.parse_args(arguments)
    measure = MEASURES[options.against]
    try:
        calls = joined(options.sweeps, measure)
        is_table = options.output.suffix == ".tex"
        content = latex(calls, measure).encode() if is_table else render(chart(calls, measure), options.output)
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_bytes(content)
    except (SweepPlotError, FigureError, OSError) as error:
        print_error("lockstep-sweep-plot", error)
        return 1
    print(f"plot: {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
