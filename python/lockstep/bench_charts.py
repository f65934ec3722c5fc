"""Reads the document of `lockstep bench codec --json` and draws its charts as Vega-Lite specifications."""

from pathlib import Path
from typing import Any

import altair
import msgspec
import polars

from lockstep.charts import Plot
from lockstep.input_file import read_bounded

COLOURS = {
    "lockstep real-time": "#2f7fe0",
    "lockstep quality": "#12a594",
    "libvpx --rt 4": "#e0902f",
    "libvpx --rt -8": "#e5484d",
    "libvpx --good 0": "#a855c7",
}
"""Colours of the encoders, Lockstep's first. They are visible on light and dark backgrounds."""
FAMILIES = {
    "lockstep": "#2f7fe0",
    "lockstep-av1": "#d6409f",
    "libvpx": "#e0902f",
    "VP9": "#8d7a3a",
    "libaom": "#e5484d",
    "SVT-AV1": "#a855c7",
    "x264": "#12a594",
}
"""Colours in the chart of time and bits, by the first word of an encoder's name. `libvpx` is its VP8, and
`lockstep-av1` the AV1 of calls."""
ALL_CLIPS = "all clips"
"""Title of the plot with the means over the clips."""
GRID_COLUMNS = 3
"""Plots in one row, one for each clip."""
PLOT_WIDTH = 300
"""Width of the plot of one clip, pixels."""


class BenchError(Exception):
    """The document cannot be reported on; the message gives the reason."""


class Curve(msgspec.Struct):
    """Rate and quality of an encoder, one value for each point."""

    indices: list[int]
    kbps: list[float]
    psnr_db: list[float]
    ssim_db: list[float]


class Encoder(msgspec.Struct):
    """One encoder on one clip: its curves by set of points, and the pictures coded in a second on one core."""

    name: str
    curves: dict[str, Curve]
    frames_per_second: float


class Comparison(msgspec.Struct):
    """One of Lockstep's presets against libvpx: extra bits at equal quality by set of points, and speed."""

    ours: str
    against: str
    bd_rate_psnr: dict[str, float | None]
    bd_rate_ssim: dict[str, float | None]
    speed_ratio: float


class Bits(msgspec.Struct):
    """Extra bits of one encoder at equal quality, and whether it is on the hull of time and bits."""

    on_hull: bool
    bd_rate: float | None = None


class Tradeoff(msgspec.Struct):
    """Time and bits of one encoder relative to the real-time level."""

    name: str
    time: float
    psnr: Bits
    ssim: Bits


class Decoding(msgspec.Struct):
    """Speed of decoding one stream, and the time for hashing its states as a share of it."""

    index: int
    frames_per_second: float
    hash_time: float
    speed_ratio: float | None = None


class Menus(msgspec.Struct):
    """Coding times of menus, relative to coding a picture once."""

    two: float
    three: float
    key_frame: float


class Fits(msgspec.Struct):
    """Results of fitting frames to a budget."""

    time: float
    fill_median: float
    fill_p10: float
    over: int
    frames: int


class Series(msgspec.Struct):
    """Quality over time."""

    kbps: float
    psnr_db: list[float]


class Drift(msgspec.Struct):
    """Quality over time of both codecs at one quantizer, for one moving picture."""

    motion: str
    index: int
    ours: Series
    libvpx: Series | None = None


class Clip(msgspec.Struct):
    """All measurements of one clip."""

    name: str
    clip: str
    width: int
    height: int
    pictures: int
    encoders: list[Encoder]
    comparisons: list[Comparison]
    decoding: list[Decoding]
    menus: Menus
    fits: Fits
    drift: list[Drift]
    tradeoffs: list[Tradeoff] = []


class Aim(msgspec.Struct):
    """One goal, and the results for it."""

    what: str
    unit: str
    better: str
    strict: bool
    worst_allowed: float | None = None
    median_allowed: float | None = None
    median: float | None = None
    worst: float | None = None
    worst_clip: str | None = None
    unknown_clip: str | None = None
    reached: bool | None = None


class CodecBench(msgspec.Struct):
    """The whole document."""

    lockstep: str
    clock: str
    pictures: int
    rounds: int
    clips: list[Clip]
    aims: list[Aim]
    libvpx: str | None = None
    tradeoffs: list[Tradeoff] = []


def load(path: Path) -> CodecBench:
    """The document at `path`.

    Raises:
        BenchError: If it cannot be read, is another document, or has no clips.

    """
    try:
        bench = msgspec.json.decode(read_bounded(path), type=CodecBench)
    except OSError as error:
        raise BenchError(f"cannot read {path}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise BenchError(f"cannot read {path} as a document of `lockstep bench codec`: {error}") from error
    if not bench.clips:
        raise BenchError(f"{path} has no clips")
    return bench


def _colour(names: list[str]) -> altair.Color:
    domain = [name for name in COLOURS if name in names]
    scale = altair.Scale(domain=domain, range=[COLOURS[name] for name in domain])
    return altair.Color("encoder:N", scale=scale, legend=altair.Legend(title=None, orient="top"))


def curves(bench: CodecBench, field: str) -> Plot:
    """Quality (`psnr_db` or `ssim_db`) over rate: one plot for each clip, one line for each encoder."""
    rows: dict[tuple[str, str, int], dict[str, Any]] = {}
    for clip in bench.clips:
        for encoder in clip.encoders:
            if encoder.name not in COLOURS:
                continue
            for curve in encoder.curves.values():
                quality = getattr(curve, field)
                for index, kbps, value in zip(curve.indices, curve.kbps, quality, strict=True):
                    # Both sets contain their common end point.
                    rows[clip.name, encoder.name, index] = {
                        "clip": clip.name,
                        "encoder": encoder.name,
                        "index": index,
                        "kbps": kbps,
                        "quality": value,
                    }
    names = [encoder.name for clip in bench.clips for encoder in clip.encoders]
    lines = (
        altair.Chart(polars.DataFrame(list(rows.values())))
        .mark_line(point=altair.OverlayMarkDef(size=18, filled=True), strokeWidth=1.6)
        .encode(
            x=altair.X("kbps:Q", scale=altair.Scale(type="log", nice=False), axis=altair.Axis(title=None, tickCount=4)),
            y=altair.Y("quality:Q", scale=altair.Scale(zero=False), axis=altair.Axis(title=None)),
            color=_colour(names),
            order="index:Q",
            tooltip=["clip:N", "encoder:N", "index:Q", _number("kbps", ".0f"), _number("quality", ".2f")],
        )
        .properties(width=PLOT_WIDTH, height=200)
    )
    return _grid(lines, "clip", [clip.name for clip in bench.clips])


def rates(bench: CodecBench) -> altair.HConcatChart:
    """BD-rates: one row for each clip, one column for each pair of encoders; colours tell PSNR from SSIM."""
    rows = [
        {"clip": clip.name, "pair": f"{pair.ours} / {pair.against}", "points": points, "measure": measure, "rate": rate}
        for clip in bench.clips
        for pair in clip.comparisons
        for measure, by_set in (("PSNR", pair.bd_rate_psnr), ("SSIM", pair.bd_rate_ssim))
        for points, rate in by_set.items()
        if rate is not None and (pair.ours, pair.against) in _COMPARED
    ]
    marks = (
        altair.Chart()
        .mark_point(size=55, strokeWidth=1.6)
        .encode(
            x=altair.X("rate:Q", axis=altair.Axis(title=None, format="+%", tickCount=5)),
            y=_clips(bench),
            color=altair.Color(
                "measure:N",
                scale=altair.Scale(domain=["PSNR", "SSIM"], range=["#2f7fe0", "#e0902f"]),
                legend=altair.Legend(title=None, orient="top"),
            ),
            shape=altair.Shape(
                "points:N",
                scale=altair.Scale(domain=["coarse", "fine"], range=["circle", "triangle-up"]),
                legend=altair.Legend(title=None, orient="top"),
            ),
            tooltip=["clip:N", "measure:N", "points:N", _number("rate", "+.1%")],
        )
    )
    return _columns(marks, polars.DataFrame(rows, schema=_RATE_SCHEMA), "pair", bench, at=0.0)


def speeds(bench: CodecBench) -> altair.HConcatChart:
    """Ratios of speed: one row for each clip, one column for each pair of encoders."""
    rows = [
        {"clip": clip.name, "pair": f"{pair.ours} / {pair.against}", "ratio": pair.speed_ratio}
        for clip in bench.clips
        for pair in clip.comparisons
        if (pair.ours, pair.against) in _SPEEDS
    ]
    rows += [
        {"clip": clip.name, "pair": "decoding / libvpx", "ratio": stream.speed_ratio}
        for clip in bench.clips
        for stream in clip.decoding
        if stream.speed_ratio is not None
    ]
    marks = (
        altair.Chart()
        .mark_point(size=55, filled=True, color="#2f7fe0")
        .encode(
            x=altair.X("ratio:Q", scale=altair.Scale(zero=False), axis=altair.Axis(title=None, tickCount=5)),
            y=_clips(bench),
            tooltip=["clip:N", _number("ratio", ".2f")],
        )
    )
    schema = {"clip": polars.String, "pair": polars.String, "ratio": polars.Float64}
    return _columns(marks, polars.DataFrame(rows, schema=schema), "pair", bench, at=1.0)


def hull(bench: CodecBench, field: str) -> Plot:
    """Bits at equal quality (`psnr` or `ssim`) over time: one plot for all clips and one for each, with the hull."""
    several = [(ALL_CLIPS, bench.tradeoffs)] if len(bench.clips) > 1 else []
    plots = several + [(clip.name, clip.tradeoffs) for clip in bench.clips]
    rows = [
        {
            "clip": title,
            "encoder": one.name,
            "family": one.name.split()[0],
            "time": one.time,
            "rate": getattr(one, field).bd_rate,
            "hull": getattr(one, field).on_hull,
        }
        for title, tradeoffs in plots
        for one in tradeoffs
        if getattr(one, field).bd_rate is not None
    ]
    schema = {
        "clip": polars.String,
        "encoder": polars.String,
        "family": polars.String,
        "time": polars.Float64,
        "rate": polars.Float64,
        "hull": polars.Boolean,
    }
    families = [name for name in FAMILIES if any(row["family"] == name for row in rows)]
    colour = altair.Color(
        "family:N",
        scale=altair.Scale(domain=families, range=[FAMILIES[name] for name in families]),
        legend=altair.Legend(title=None, orient="top"),
    )
    base = altair.Chart(width=PLOT_WIDTH, height=220).encode(
        x=altair.X("time:Q", scale=altair.Scale(type="log", nice=False), axis=altair.Axis(title=None, tickCount=4)),
        y=altair.Y("rate:Q", axis=altair.Axis(title=None, format="+%", tickCount=5)),
    )
    on_hull = base.transform_filter("datum.hull")
    line = on_hull.mark_line(color="#8a94a3", strokeWidth=1.2).encode(order="time:Q")
    names = on_hull.mark_text(align="left", dx=6, dy=-6, fontSize=10).encode(text="encoder:N", color=colour)
    points = base.mark_point(size=45, filled=True).encode(
        color=colour,
        tooltip=["clip:N", "encoder:N", _number("time", ".2f"), _number("rate", "+.1%")],
    )
    layered = altair.LayerChart(data=polars.DataFrame(rows, schema=schema), layer=[line, points, names])
    return _grid(layered, "clip", [title for title, _ in plots])


def drift(bench: CodecBench) -> Plot:
    """PSNR relative to the first picture: rows are motions, columns quantizers, lines clips and codecs."""
    rows = [
        {
            "clip": clip.name,
            "encoder": name,
            "motion": one.motion,
            "index": one.index,
            "picture": at,
            "gain": psnr - first,
        }
        for clip in bench.clips
        for one in clip.drift
        for name, series in (("lockstep real-time", one.ours), ("libvpx --rt 4", one.libvpx))
        if series is not None and series.psnr_db
        for first in (series.psnr_db[0],)
        # Every third picture is enough to show the course of a line.
        for at, psnr in list(enumerate(series.psnr_db))[:: 3 if len(series.psnr_db) > 30 else 1]
    ]
    schema = {
        "clip": polars.String,
        "encoder": polars.String,
        "motion": polars.String,
        "index": polars.Int64,
        "picture": polars.Int64,
        "gain": polars.Float64,
    }
    base = altair.Chart()
    lines = base.mark_line(strokeWidth=1.2, opacity=0.75).encode(
        x=altair.X("picture:Q", axis=altair.Axis(title=None, tickCount=4)),
        y=altair.Y("gain:Q", axis=altair.Axis(title=None, format="+")),
        color=_colour(["lockstep real-time", "libvpx --rt 4"]),
        detail="clip:N",
        tooltip=["clip:N", "encoder:N", "picture:Q", _number("gain", "+.2f")],
    )
    layered = altair.layer(lines, _rule(y=0.0), data=polars.DataFrame(rows, schema=schema))
    chart: altair.FacetChart = layered.properties(width=PLOT_WIDTH, height=150).facet(
        row=altair.Row(
            "motion:N", sort=["still", "pan", "zoom"], header=altair.Header(title=None, labelOrient="right")
        ),
        column=altair.Column("index:Q", header=altair.Header(title="quantizer index", titleFontWeight="normal")),
    )
    return chart


_COMPARED = {("lockstep real-time", "libvpx --rt 4"), ("lockstep quality", "libvpx --good 0")}
_SPEEDS = {("lockstep real-time", "libvpx --rt -8"), ("lockstep quality", "libvpx --good 0")}
_RATE_SCHEMA = {
    "clip": polars.String,
    "pair": polars.String,
    "points": polars.String,
    "measure": polars.String,
    "rate": polars.Float64,
}


def _number(field: str, format_: str) -> altair.Tooltip:
    return altair.Tooltip(f"{field}:Q", format=format_)


def _clips(bench: CodecBench) -> altair.Y:
    axis = altair.Axis(title=None, grid=True, minExtent=110, maxExtent=110)
    return altair.Y("clip:N", sort=[clip.name for clip in bench.clips], axis=axis)


def _rule(**at: float) -> altair.Chart:
    encoding: dict[str, Any] = {
        name: (altair.YDatum(value) if name == "y" else altair.XDatum(value)) for name, value in at.items()
    }
    rule: altair.Chart = altair.Chart().mark_rule(strokeDash=[3, 3], color="#8a94a3").encode(**encoding)
    return rule


def _grid(chart: altair.Chart | altair.LayerChart, field: str, titles: list[str]) -> Plot:
    facet = altair.Facet(f"{field}:N", sort=titles, header=altair.Header(title=None, labelAnchor="start"))
    whole: altair.FacetChart = chart.facet(facet=facet, columns=GRID_COLUMNS).resolve_scale(
        x="independent", y="independent"
    )
    return whole


def _columns(
    marks: altair.Chart, table: polars.DataFrame, field: str, bench: CodecBench, at: float
) -> altair.HConcatChart:
    pairs = table[field].unique(maintain_order=True).to_list()
    height = 24 + 22 * len(bench.clips)
    plots = [
        altair.layer(marks, _rule(x=at), data=table.filter(polars.col(field) == pair)).properties(
            width=(1000 - 130 * len(pairs)) // max(1, len(pairs)), height=height, title=pair
        )
        for pair in pairs
    ]
    whole: altair.HConcatChart = altair.hconcat(*plots, spacing=24)
    return whole
