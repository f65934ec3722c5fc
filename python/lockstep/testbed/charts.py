"""Charts of the testbed's report as Vega-Lite specifications."""

import math
from collections.abc import Sequence
from pathlib import Path

import altair
import polars

from lockstep.charts import Plot
from lockstep.comparison_charts import PANEL, WIDTH, colour_by_name, distributions, over_time
from lockstep.testbed.experiments import Printed, label
from lockstep.testbed.quality import in_decibels

PAPER = "#8a94a3"
"""Colour of the paper's figures."""


def charts(
    counted: polars.DataFrame, printed: Sequence[Printed], typical: Sequence[tuple[str, Path]]
) -> dict[str, Plot]:
    """The charts by the name of their place on the page; empty ones are omitted."""
    if counted.is_empty():
        return {}
    runs = counted.select(
        polars.col("case"),
        polars.col("program").map_elements(label, polars.String).alias("name"),
        polars.col("repeat"),
        polars.col("delay_p95_ms").alias("p95"),
        polars.col("delay_p50_ms").alias("p50"),
        polars.col("ssim_db").alias("ssim"),
        polars.col("forward_kbps").alias("kbps"),
    )
    names = runs["name"].unique(maintain_order=True).to_list()
    colour = colour_by_name(names)
    frames = _frames(typical)
    drawn: dict[str, Plot] = {"scatter": _scatter(runs, printed, colour)}
    if not frames.is_empty():
        drawn["time"] = over_time(frames, _series(typical), colour)
        drawn["distributions"] = distributions(frames, colour)
    return drawn


def _scatter(runs: polars.DataFrame, printed: Sequence[Printed], colour: altair.Color) -> Plot:
    """Delay against quality, better up and to the right: every run, larger means, and the paper's figures."""
    panels = []
    cases = runs["case"].unique(maintain_order=True)
    for case in cases:
        here = runs.filter(polars.col("case") == case)
        means = here.group_by("name", maintain_order=True).agg(polars.col("p95", "p50", "ssim", "kbps").mean())
        x = altair.X(
            "p95:Q",
            scale=altair.Scale(type="log", reverse=True, nice=False, padding=30),
            axis=altair.Axis(title="p95 video delay, ms (better to the right)", grid=True, tickCount=6, format="~s"),
        )
        y = altair.Y("ssim:Q", scale=altair.Scale(zero=False, padding=24), axis=altair.Axis(title=None))
        tooltip = [altair.Tooltip("name:N"), *(altair.Tooltip(f"{name}:Q", format=".0f") for name in ("p50", "p95"))]
        tooltip += [altair.Tooltip("ssim:Q", format=".2f"), altair.Tooltip("kbps:Q", format=".0f")]
        base = altair.Chart(here).encode(x=x, y=y, color=colour, tooltip=tooltip)
        large = altair.Chart(means).encode(x=x, y=y, color=colour, tooltip=tooltip)
        layers: list[Plot] = [
            base.mark_point(size=38, opacity=0.65, strokeWidth=1.6),
            large.mark_point(filled=True, size=150, opacity=0.95),
        ]
        known = [
            {"name": f"the paper: {figure.system}", "p95": figure.p95, "ssim": figure.ssim_db, "text": figure.system}
            for figure in sorted(printed, key=lambda figure: figure.p95)
            if not (math.isnan(figure.p95) or math.isnan(figure.ssim_db)) and figure.whose == "shown frames only"
        ]
        if known:
            paper = altair.Chart(polars.DataFrame(known)).encode(x=x, y=y, tooltip=["name:N", "p95:Q", "ssim:Q"])
            layers.append(paper.mark_point(shape="diamond", size=90, color=PAPER, filled=True))
            # Labels alternate above and below, so that close points do not overlap.
            for index, figure in enumerate(known):
                one = altair.Chart(polars.DataFrame([figure])).encode(x=x, y=y, text=altair.Text("text:N"))
                dy = -13 if index % 2 else 15
                layers.append(one.mark_text(align="left", dx=-6, dy=dy, color=PAPER, fontSize=11))
        panels.append(
            altair.layer(*layers).properties(
                width=WIDTH if len(cases) == 1 else PANEL,
                height=320,
                title=altair.TitleParams(str(case), subtitle="SSIM, dB, over p95 video delay"),
            )
        )
    plot: altair.ConcatChart = altair.concat(*panels, columns=2, spacing=36)
    return plot


def _frames(typical: Sequence[tuple[str, Path]]) -> polars.DataFrame:
    """The frames of the typical runs in one table."""
    found = []
    for name, folder in typical:
        path = folder / "frames.parquet"
        if path.exists():
            frames = polars.read_parquet(path)
            decibels = [None if value is None else in_decibels(value) for value in frames["ssim"]]
            found.append(
                frames.select(
                    polars.lit(name).alias("name"),
                    polars.col("captured_at").round(3).alias("at"),
                    (polars.col("waited") * 1000).round(1).alias("delay"),
                ).with_columns(polars.Series("ssim", decibels, polars.Float64).round(2))
            )
    return polars.concat(found) if found else polars.DataFrame()


def _series(typical: Sequence[tuple[str, Path]]) -> polars.DataFrame:
    found = []
    for name, folder in typical:
        path = folder / "series.parquet"
        if path.exists():
            series = polars.read_parquet(path)
            found.append(
                series.select(polars.lit(name).alias("name"), "at", (polars.col("forward_bps") / 1e6).alias("rate"))
            )
    return polars.concat(found).drop_nulls() if found else polars.DataFrame({"name": [], "at": [], "rate": []})
