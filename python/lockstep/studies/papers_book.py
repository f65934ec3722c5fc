"""The book of `lockstep study papers`: one HTML page of each printed result and the measured ones."""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import altair
import jinja2
import polars

from lockstep import __version__, theme
from lockstep.charts import Plot
from lockstep.comparison_charts import MINUTE, colour_by_name, distributions, excerpt, over_time
from lockstep.figure import COLOURS, specification, write_figures
from lockstep.report import script_json, template, vega
from lockstep.studies.printed_results import (
    AGREEMENTS,
    CHROMIUM,
    MODES,
    OUT_OF_REACH,
    PICTURES,
    PUBLISHED,
    TODAY,
)

WHY = (
    (
        "Salsify",
        r"Fig\. 10\(e\)|Fig\. 2|Abstract|analysis",
        "The clip is another one; the recordings are of other drives, or the links are generated. WebRTC is GCC with "
        "Lockstep's conventional codec.",
    ),
    ("Salsify", r"Sec\. 5\.2, Exp\. 5|Sec\. 6\.2, Exp\. 4", "WebRTC is a model of today's: it recovers with probes."),
    (
        "Concerto",
        r"Sec\. 2\.3, Fig\. 7",
        "GCC of 2018 consists of today's parts, and generated links stand for 1000 sessions.",
    ),
    ("Concerto", r"Sec\. 2\.3|Sec\. 1", "The links are generated; congestion is a dip of the capacity of 20 s."),
    (
        "Concerto",
        r"Sec\. 5\.2|Sec\. 5\.3|Table 3|Table 4",
        "Trainings are as short as the budget, on generated links of three networks.",
    ),
    ("BoB", r"Table|Sec\. IV-D", "The models are trained here; the paper's calls are AlphaRTC's in real time."),
)
"""Known reasons for differences, by regular expressions of paper and place."""

NAMES_OF_MODES = {PUBLISHED: "as published, here", TODAY: "Lockstep today", CHROMIUM: "Chromium, testbed"}
PRINTED = "printed"
FRAMES = "frames"
"""Folder of the frames of one call of each system: a folder for each link, a file for each system."""
SERIES_LINK = "AT&T LTE"
"""Link of the minute over time, as in Salsify's Figure 6(f)."""
DRAWN_SYSTEMS = ("Salsify-1c", "Salsify-2c", "WebRTC", "Lockstep")
SHORT = {
    "reproduced within the interval": "reproduced",
    "same direction, other size": "same direction",
    "not reproduced": "not reproduced",
    "interval too wide to tell": "undecided",
    "1 by definition": "by definition",
    "not measured in this run": "not measured",
    "out of reach": "out of reach",
}
"""Column headings of the agreements."""


def why(paper: str, where: str) -> str:
    """Known reasons for the differences of a place's results."""
    return next((why for of, at, why in WHY if paper.startswith(of) and re.match(at, where)), "")


def number(value: float | None, half: float | None = None) -> str:
    """A value with three significant digits, and half its interval with the same decimals."""
    if value is None or not math.isfinite(value):
        return "–"
    digits = 0 if value == 0.0 else max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{min(digits, 3)}f}"
    return text if half is None or not math.isfinite(half) else f"{text} ± {half:,.{min(digits, 3)}f}"


def counts(table: polars.DataFrame) -> list[dict[str, Any]]:
    """Number of results by paper and agreement, with a row for all."""
    rows = []
    for paper in [*table["paper"].unique(maintain_order=True), "all"]:
        own = table if paper == "all" else table.filter(polars.col("paper") == paper)
        numbers = [int((own["agreement"] == name).sum()) for name in AGREEMENTS]
        rows.append({"paper": paper, "numbers": numbers, "total": len(own)})
    return rows


def sections(table: polars.DataFrame) -> Iterator[tuple[str, str, str, polars.DataFrame]]:
    """The results of each place in each paper: identifier, paper, place, rows."""
    for index, ((paper, where), rows) in enumerate(table.group_by(["paper", "where"], maintain_order=True)):
        yield f"place-{index}", str(paper), str(where), rows


def plot_of(rows: polars.DataFrame, where: str) -> Plot | None:
    """The printed and measured values: delay against quality for Salsify's figures, else one panel for each metric.

    None if nothing was measured.
    """
    if rows.select(polars.any_horizontal(polars.col(MODES).is_not_null()).any()).item() is not True:
        return None
    long = _long(rows)
    if where == "Fig. 10(e)":
        return _delay_and_quality(long)
    return _panels(long)


def _long(rows: polars.DataFrame) -> polars.DataFrame:
    """One row for each printed or measured value."""
    found = []
    for row in rows.iter_rows(named=True):
        name = ", ".join(filter(None, (row["system"], _short(row["condition"]))))
        common = {name: row[name] for name in ("metric", "system", "condition", "unit")} | {"name": name}
        found.append(common | {"origin": PRINTED, "value": row["number"], "low": None, "high": None})
        for mode in MODES:
            if row[mode] is not None:
                half = row[f"{mode}_half"] if math.isfinite(row[f"{mode}_half"]) else 0.0
                limits = {"low": row[mode] - half, "high": row[mode] + half}
                found.append(common | {"origin": NAMES_OF_MODES[mode], "value": row[mode], **limits})
    return polars.DataFrame(found, infer_schema_length=None)


def _colour() -> altair.Color:
    domain = [PRINTED, *NAMES_OF_MODES.values()]
    return altair.Color(
        "origin:N",
        scale=altair.Scale(domain=domain, range=["#8a93a3", *COLOURS[: len(MODES)]]),
        legend=altair.Legend(title=None, orient="top", labelLimit=0),
    )


def _panels(long: polars.DataFrame) -> Plot:
    panels = []
    for (metric, unit), own in long.group_by(["metric", "unit"], maintain_order=True):
        order = own["name"].unique(maintain_order=True).to_list()
        base = altair.Chart(own).encode(
            y=altair.Y("name:N", title=None, sort=order, axis=altair.Axis(labelLimit=260)), color=_colour()
        )
        x = altair.Scale(zero=False, nice=True)
        lines = base.mark_rule(strokeWidth=2).encode(x=altair.X("low:Q", scale=x, title=str(unit)), x2="high:Q")
        points = base.mark_point(filled=True, size=70, opacity=0.9).encode(
            x=altair.X("value:Q", scale=x, title=str(unit)),
            shape=altair.Shape(
                "origin:N",
                scale=altair.Scale(
                    domain=[PRINTED, *NAMES_OF_MODES.values()], range=["diamond", "circle", "square", "triangle-up"]
                ),
                legend=None,
            ),
            tooltip=["name:N", "origin:N", altair.Tooltip("value:Q", format=".3~f")],
        )
        title = altair.Title(str(metric), fontSize=13, anchor="start")
        panels.append(altair.layer(lines, points).properties(width=330, height=22 * len(order) + 12, title=title))
    plot: Plot = altair.concat(*panels, columns=2)
    return plot


def _delay_and_quality(long: polars.DataFrame) -> Plot:
    """As in Salsify's figures: p95 delay on a reversed axis, SSIM upwards; one panel for each link."""
    metrics = {"SSIM mean": "ssim", "video delay p95 (every captured frame)": "delay"}
    wide = (
        long.filter(polars.col("metric").is_in(list(metrics)))
        .with_columns(polars.col("metric").replace_strict(metrics), link=polars.col("condition").str.split(",").list[0])
        .pivot("metric", index=["system", "link", "origin"], values="value", aggregate_function="first")
        .drop_nulls()
        # Lockstep stands beside both of Salsify's rows.
        .with_columns(
            label=polars.when(polars.col("origin") == NAMES_OF_MODES[TODAY])
            .then(polars.lit("Lockstep"))
            .otherwise("system")
        )
        .unique(["label", "link", "origin"], maintain_order=True)
    )
    panels = []
    for (link,), own in wide.group_by(["link"], maintain_order=True):
        base = altair.Chart(own).encode(
            x=altair.X("delay:Q", scale=altair.Scale(type="log", reverse=True), title="video delay, p95, ms"),
            y=altair.Y("ssim:Q", scale=altair.Scale(zero=False), title="SSIM, dB"),
        )
        points = base.mark_point(filled=True, size=80).encode(
            color=_colour(), tooltip=["system:N", "origin:N", "delay:Q", "ssim:Q"]
        )
        names = base.mark_text(align="left", dx=7, fontSize=11).encode(text="label:N", color=_colour())
        title = altair.Title(str(link).partition(":")[0], fontSize=13, anchor="start")
        panels.append(altair.layer(points, names).properties(width=400, height=240, title=title))
    plot: Plot = altair.concat(*panels, columns=2)
    return plot


def frames_of(folder: Path, link: str) -> polars.DataFrame | None:
    """The frames of one call of each system over a link; None without such calls."""
    files = [folder / FRAMES / link / f"{system}.parquet" for system in DRAWN_SYSTEMS]
    tables = [polars.read_parquet(file) for file in files if file.exists()]
    return polars.concat(tables) if tables else None


def plots_of_calls(folder: Path) -> dict[str, tuple[str, Plot]]:
    """Distributions of delay and quality on each link, and a minute over time: headings and plots by identifier."""
    found: dict[str, tuple[str, Plot]] = {}
    links = sorted(path.name for path in (folder / FRAMES).glob("*")) if (folder / FRAMES).exists() else []
    for index, link in enumerate(links):
        frames = frames_of(folder, link)
        if frames is not None:
            colour = colour_by_name(frames["name"].unique(maintain_order=True).to_list())
            found[f"distributions-{index}"] = (f"Delay and quality of frames, {link}", distributions(frames, colour))
            if link == SERIES_LINK:
                minute = over_time(excerpt(frames, MINUTE), polars.DataFrame(), colour)
                found["minute"] = (f"The first minute, {link} (Salsify, Fig. 6(f))", minute)
    return found


def write_book(folder: Path, table: polars.DataFrame, run: str) -> Path:
    """Writes `papers.html`, and the plots in all formats; returns the page's path. ``run`` describes the run."""
    drawn: dict[str, Plot] = {}
    chapters = []
    for name, paper, where, rows in sections(table):
        plot = plot_of(rows, where)
        if plot is not None:
            drawn[name] = plot
        known = rows.filter(polars.col("agreement") != OUT_OF_REACH)
        if not known.is_empty():
            lines = [_line(row) for row in known.iter_rows(named=True)]
            chapters.append(
                {
                    "name": name,
                    "heading": f"{paper}, {where}",
                    "why": why(paper, where),
                    "conditions": [text for text in known["condition"].unique(maintain_order=True) if "," in text],
                    "unreachable": len(rows) - len(known),
                    "rows": lines,
                }
            )
    unreachable = [
        {"heading": f"{paper}, {where}", "reason": reason, "values": _values(rows)}
        for (paper, where, reason), rows in table.filter(polars.col("agreement") == OUT_OF_REACH).group_by(
            ["paper", "where", "reason"], maintain_order=True
        )
    ]
    of_calls = plots_of_calls(folder)
    drawn |= {name: plot for name, (_, plot) in of_calls.items()}
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(template), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    configurations = {"light": theme.configuration(dark=False), "dark": theme.configuration(dark=True)}
    charts = {name: specification(plot) for name, plot in drawn.items()}
    page = environment.get_template("papers.html.jinja").render(
        run=run,
        agreements=[SHORT[name] for name in AGREEMENTS],
        counts=counts(table),
        chapters=chapters,
        charts=list(drawn),
        of_calls=[{"name": name, "heading": heading} for name, (heading, _) in of_calls.items()],
        unreachable=unreachable,
        pictures=PICTURES,
        payload=script_json({"charts": charts, "configs": configurations}),
        vega=vega(),
        version=__version__,
    )
    path = folder / "papers.html"
    path.write_text(page, encoding="utf-8")
    write_figures(drawn, folder / "figures")
    return path


def _line(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the book's tables."""
    return {
        "what": row["metric"],
        "of": ", ".join(filter(None, (row["system"], _short(row["condition"])))),
        "printed": f"{row['value']} {'' if row['unit'] == '-' else row['unit']}".strip(),
        "measured": [number(row[mode], row[f"{mode}_half"]) for mode in MODES],
        "agreement": SHORT[row["agreement"]],
    }


def _short(condition: str) -> str:
    """The part of a condition before its details."""
    return re.split("[,:(]", condition, maxsplit=1)[0].strip()


def _values(rows: polars.DataFrame) -> str:
    """The printed values of rows in one line."""
    return "; ".join(
        f"{', '.join(filter(None, (row['metric'], row['system'], row['condition'])))}: {row['value']} {row['unit']}"
        for row in rows.iter_rows(named=True)
    )
