"""Charts that compare calls: cumulative distributions of delay and quality, and values over time.

Tables of frames have the columns `name`, `at` (capture, s), `delay` (ms) and `ssim` (dB); those of series `name`, `at`
and `rate` (Mb/s). `call_frames` and `call_series` make them from simulated calls, the testbed from its runs.
"""

from collections.abc import Sequence

import altair
import polars

from lockstep.call_log import ssim_db
from lockstep.charts import Plot
from lockstep.figure import colours
from lockstep.simulation import Simulated

WIDTH = 980
"""Width of a chart over time, pixels."""
PANEL = 440
"""Width of one of two adjacent charts, pixels."""
MAX_POINTS = 700
"""Largest number of points in the line of a distribution."""
MINUTE = (0.0, 60.0)
"""Excerpt of Salsify's Figure 6f, seconds."""
LONG_EXCERPT = (0.0, 200.0)
"""A longer excerpt, seconds."""


def colour_by_name(names: Sequence[str]) -> altair.Color:
    """One colour for each name, with a legend above the chart."""
    return altair.Color(
        "name:N",
        scale=altair.Scale(domain=list(names), range=colours(names)),
        legend=altair.Legend(title=None, orient="top", columns=3, labelLimit=320),
    )


def call_frames(name: str, call: Simulated) -> polars.DataFrame:
    """The frames of a simulated call. The delay is that of every captured frame until it or a later one is shown."""
    return polars.DataFrame(call.frames).select(
        polars.lit(name).alias("name"),
        polars.col("captured_at").round(3).alias("at"),
        # A logarithmic axis cannot show zero.
        (polars.col("video_delay") * 1000.0).clip(lower_bound=0.1).round(1).alias("delay"),
        ssim_db(polars.col("ssim")).round(2).alias("ssim"),
    )


def call_series(name: str, call: Simulated) -> polars.DataFrame:
    """The received rate of a simulated call over time."""
    return (
        polars.DataFrame(call.series)
        .select(
            polars.lit(name).alias("name"),
            polars.col("time").round(3).alias("at"),
            (polars.col("received_bps") / 1e6).round(3).alias("rate"),
        )
        .drop_nulls()
    )


def excerpt(table: polars.DataFrame, span: tuple[float, float]) -> polars.DataFrame:
    """The rows of a span of time, seconds, which then starts at 0."""
    start, end = span
    at = polars.col("at")
    return table.filter(at >= start, at < end).with_columns(at=at - start)


def over_time(frames: polars.DataFrame, series: polars.DataFrame, colour: altair.Color) -> Plot:
    """Rate, delay and quality of each call over time, as in Salsify's Figure 6f.

    Without rows in ``series``, the panel of rates is omitted.
    """
    x = altair.X("at:Q", scale=altair.Scale(nice=False), axis=altair.Axis(title=None, labelExpr="datum.label + ' s'"))

    def panel(data: polars.DataFrame, field: str, titles: tuple[str, str], scale: altair.Scale, height: int) -> Plot:
        y = altair.Y(f"{field}:Q", scale=scale, axis=altair.Axis(title=None))
        line = altair.Chart(data).mark_line(strokeWidth=1.4, interpolate="step-after").encode(x=x, y=y, color=colour)
        chart: Plot = line.properties(
            width=WIDTH, height=height, title=altair.TitleParams(titles[0], subtitle=titles[1])
        )
        return chart

    log, free = altair.Scale(type="log", nice=False), altair.Scale(zero=False, nice=False)
    panels = []
    if not series.is_empty():
        subtitle = "Mb/s received from the link"
        panels.append(panel(series, "rate", ("Rate", subtitle), altair.Scale(), 130))
    delay = "ms from each frame's capture until it or a later one is shown"
    panels.append(panel(frames, "delay", ("Video delay", delay), log, 170))
    quality = frames.filter(polars.col("ssim").is_not_null())
    if not quality.is_empty():
        panels.append(panel(quality, "ssim", ("SSIM", "dB of the frames shown"), free, 130))
    plot: altair.VConcatChart = altair.vconcat(*panels, spacing=22)
    return plot


def distributions(frames: polars.DataFrame, colour: altair.Color) -> Plot:
    """Cumulative distributions of delay and quality, as in Concerto's Figures 20 and 21."""
    panels = []
    for field, title, subtitle, scale in (
        ("delay", "Video delay, ms", "share of all captured frames at most this", altair.Scale(type="log", nice=False)),
        ("ssim", "SSIM, dB", "share of shown frames at most this", altair.Scale(zero=False, nice=False)),
    ):
        rows = [
            {"name": name, "value": value, "share": share}
            for (name,), group in frames.group_by(["name"], maintain_order=True)
            for value, share in cumulative(group[field].drop_nulls().sort().to_list())
        ]
        if not rows:
            continue
        x = altair.X("value:Q", scale=scale, axis=altair.Axis(title=None, tickCount=6, format="~s"))
        y = altair.Y("share:Q", scale=altair.Scale(domain=[0, 1]), axis=altair.Axis(title=None, format="%"))
        line = altair.Chart(polars.DataFrame(rows)).mark_line(strokeWidth=1.8, interpolate="step-after")
        panels.append(
            line.encode(x=x, y=y, color=colour).properties(
                width=PANEL, height=230, title=altair.TitleParams(title, subtitle=subtitle)
            )
        )
    plot: altair.HConcatChart = altair.hconcat(*panels, spacing=36)
    return plot


def cumulative(ordered: Sequence[float]) -> list[tuple[float, float]]:
    """Points of the cumulative distribution of ascending values, the largest included."""
    step = max(1, len(ordered) // MAX_POINTS)
    points = [(value, (index + 1) / len(ordered)) for index, value in enumerate(ordered)][step - 1 :: step]
    return points if not ordered or points[-1][0] == ordered[-1] else [*points, (ordered[-1], 1.0)]
