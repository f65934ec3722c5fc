"""Charts of a call as Vega-Lite specifications: a timeline with linked time axes, and distributions.

Both use the named data sets of `datasets`, so that a report holds the data once.
"""

from typing import Any, TypeAlias

import altair
import polars

from lockstep.call_log import LIMITS, CallReport, Series, ssim_db

Plot: TypeAlias = (
    altair.LayerChart
    | altair.FacetChart
    | altair.ConcatChart
    | altair.HConcatChart
    | altair.VConcatChart
    | altair.Chart
)
"""Any chart type of Altair."""

PLOT_WIDTH = 1000
"""Width of a plot where the page sets none, pixels."""
MARGIN_LEFT = 52
"""Space for labels of a vertical axis, pixels. All plots use it, so that their time axes align."""
MARGIN_RIGHT = 48
"""Space for text to the right of a line, pixels."""
MAX_BINS = 600
"""Longer series are averaged down to this number of points: a screen shows no more columns."""

CAPACITY, SENT, RECEIVED = "#8fa3bf", "#e0902f", "#2f7fe0"
TARGET, ESTIMATE = "#e5484d", "#12a594"
"""Colours of the link's rates and of the controller's outputs. All are visible on light and dark backgrounds."""
FATES = {"Displayed": "#2f7fe0", "Skipped": "#e5484d", "Sent, never displayed": "#a855c7"}
"""Colours of the outcomes of frames."""
KINDS = {"Frame": "#2f7fe0", "Recovery frame": "#12a594", "Key frame": "#a855c7", "Over budget": "#e5484d"}
"""Colours of the kinds of frames sent."""
BUDGET, QUEUEING, QUANTIZER, QUALITY = "#8a94a3", "#e0902f", "#7c66dc", "#12a594"
"""Colours of the other curves."""

OUTCOMES = {
    "sent": "sent",
    "skipped_over_budget": "skipped: no candidate within the budget",
    "skipped_stale_source": "skipped: its source state was lost",
    "skipped_by_encoder": "skipped: the encoder dropped it to keep its rate",
    "skipped_busy": "skipped: the encoder was busy",
    "skipped_by_transport": "skipped: the transport did not take it",
    "unfinished": "undecided when the call ended",
}
"""Descriptions of the outcomes in a frame log."""


LIMIT_COLOURS = {
    "link_estimate": "#2f7fe0",
    "deadline": "#5aa9e6",
    "delivered": "#7c66dc",
    "silence": "#e5484d",
    "short_queue": "#d9a21b",
    "ceiling": "#12a594",
    "narrow_path": "#e0902f",
    "sound": "#d6579a",
    "messages": "#b07aa1",
    "parity": "#8a94a3",
    "coarsest_quantizer": "#a0522d",
    "finest_quantizer": "#3aa655",
}
"""Colours of the limits."""

LIMIT_BINS = 120
"""Number of time intervals in which the chart of limits shows shares."""
FIGURE_AXES = {
    "link": (None, "rate, Mb/s"),
    "video-delay": (None, "video delay, ms"),
    "queueing-delay": (None, "queueing delay, ms"),
    "frame-size": (None, "size, kB"),
    "quantizer": (None, "quantizer index"),
    "ssim": (None, "SSIM, dB"),
    "limits": (None, "share of frames"),
    "video-delay-distribution": ("video delay, ms", "share of frames"),
    "ssim-distribution": ("SSIM, dB", "share of frames"),
}
"""Titles of both axes of each figure. Labels of a time axis have their unit."""


def datasets(report: CallReport, frames: polars.DataFrame | None) -> dict[str, polars.DataFrame]:
    """The data sets of the charts: `series`, and with a frame log also `frames` and `limits`."""
    data = {"series": _series(report.series)}
    if frames is not None:
        table = _frames(frames)
        # A call runs a little longer than the scored time, so that the last scored frames have successors.
        end = data["series"]["end"].max()
        data["frames"] = table.filter(polars.col("time") < end) if isinstance(end, float) else table
        data["limits"] = _limits(data["frames"])
    return data


def duration(data: dict[str, polars.DataFrame]) -> float:
    """Time that the charts cover, seconds; at least 0.1."""
    ends = [table["end"].max() for table in data.values() if len(table) > 0]
    return max([0.1, *(float(end) for end in ends if isinstance(end, int | float))])


def timeline(data: dict[str, polars.DataFrame]) -> altair.VConcatChart:
    """The charts over time, below each other. A brush on the first one selects the time range of the others."""
    end = duration(data)
    brush = altair.selection_interval(name="brush", encodings=["x"], zoom=False)
    limits = (
        altair.param(name="from", expr="isValid(brush.time) ? brush.time[0] : 0"),
        altair.param(name="to", expr=f"isValid(brush.time) ? brush.time[1] : {end}"),
    )
    overview: list[Plot] = []
    if len(data["series"]) > 0:
        overview.append(_overview(end, brush))
    elif len(data.get("frames", polars.DataFrame())) > 0:
        overview.append(_frame_overview(end, brush))
    chart = altair.vconcat(*overview, *_over_time(data).values(), spacing=22).resolve_scale(color="independent")
    whole: altair.VConcatChart = chart.add_params(*limits) if overview else chart
    return whole


def _over_time(data: dict[str, polars.DataFrame]) -> dict[str, Plot]:
    """The charts over time from `from` to `to`, by name."""
    series, frames = data["series"], data.get("frames", polars.DataFrame())
    charts: dict[str, Plot] = {}
    if len(series) > 0:
        charts["link"] = _link(series)
    if len(frames) > 0:
        charts["video-delay"] = _delay(frames)
    if _any(series, "queueing"):
        charts["queueing-delay"] = _queueing()
    if len(frames) > 0:
        charts |= {"frame-size": _size(frames), "quantizer": _quantizer()}
        if _any(frames, "ssim_db"):
            charts["ssim"] = _ssim()
        if len(data["limits"]) > 0:
            charts["limits"] = _held_back(data["limits"])
    return charts


def distributions(data: dict[str, polars.DataFrame]) -> altair.HConcatChart:
    """The cumulative distributions of video delay and SSIM over the frames captured between `from` and `to`."""
    charts = _distributions(data)
    chart = altair.hconcat(*charts.values(), spacing=24)
    return chart.add_params(*_whole_call(data)) if charts else chart


def _distributions(data: dict[str, polars.DataFrame]) -> dict[str, Plot]:
    frames = data.get("frames")
    charts: dict[str, Plot] = {}
    if frames is not None and _any(frames, "delay_ms"):
        scale = altair.Scale(type="log", nice=False)
        charts["video-delay-distribution"] = _distribution(
            "delay_ms", "Video delay, ms", "all captured frames", FATES["Displayed"], scale
        )
    if frames is not None and _any(frames, "ssim_db"):
        scale = altair.Scale(zero=False, nice=False)
        charts["ssim-distribution"] = _distribution("ssim_db", "SSIM, dB", "the displayed frames", QUALITY, scale)
    return charts


def _whole_call(data: dict[str, polars.DataFrame]) -> tuple[altair.Parameter, altair.Parameter]:
    """`from` and `to` of the whole call."""
    return altair.param(name="from", value=0), altair.param(name="to", value=duration(data))


def figures(data: dict[str, polars.DataFrame]) -> dict[str, Plot]:
    """Each chart of the report as a figure of the whole call, by name. Titles of its axes replace the chart's title."""
    charts = _over_time(data) | _distributions(data)
    found = {}
    for name, chart in charts.items():
        x, y = FIGURE_AXES[name]
        for layer in chart.layer if isinstance(chart, altair.LayerChart) else [chart]:
            if isinstance(layer.encoding.x, altair.X):
                layer.encoding.x["axis"]["title"] = x
            if isinstance(layer.encoding.y, altair.Y):
                layer.encoding.y["axis"]["title"] = y
        found[name] = chart.add_params(*_whole_call(data))
    return found


def _series(series: Series) -> polars.DataFrame:
    columns = {
        "capacity": series.capacity_bps,
        "sent": series.sent_bps,
        "received": series.received_bps,
        "queueing": series.queueing_delay_ms,
        "target": series.target_bps,
        "estimate": series.estimate_bps,
    }
    length = max(len(values) for values in columns.values())
    padded = {name: [*values, *[None] * (length - len(values))] for name, values in columns.items()}
    table = polars.DataFrame(padded, schema=dict.fromkeys(columns, polars.Float64)).with_row_index("bin")
    together = -(-length // MAX_BINS) or 1
    interval = series.interval_ms / 1000.0
    return (
        table.group_by(polars.col("bin") // together, maintain_order=True)
        .agg(
            *((polars.col(name).mean() / 1e6).round(4) for name in columns if name != "queueing"),
            polars.col("queueing").mean().round(2),
        )
        .select(
            (polars.col("bin") * together * interval).round(4).alias("time"),
            ((polars.col("bin") + 1) * together * interval).clip(upper_bound=length * interval).round(4).alias("end"),
            *columns,
        )
    )


def _frames(frames: polars.DataFrame) -> polars.DataFrame:
    size, budget = polars.col("size"), polars.col("budget")
    kind = (
        polars.when(size > budget)
        .then(polars.lit("Over budget"))
        .when("key_frame")
        .then(polars.lit("Key frame"))
        .when("recovery")
        .then(polars.lit("Recovery frame"))
        .otherwise(polars.lit("Frame"))
    )
    fate = (
        polars.when(polars.col("outcome") != "sent")
        .then(polars.lit("Skipped"))
        .when(polars.col("displayed_at").is_not_null())
        .then(polars.lit("Displayed"))
        .otherwise(polars.lit("Sent, never displayed"))
    )
    time = polars.col("captured_at")
    following = time.shift(-1).fill_null(time + (time - time.shift(1)).fill_null(0.033))
    # A logarithmic axis cannot show zero.
    delay = (polars.col("video_delay") * 1000.0).clip(lower_bound=0.1)
    return frames.select(
        time.round(4).alias("time"),
        following.round(4).alias("end"),
        "capture",
        polars.col("outcome").replace(OUTCOMES),
        fate.alias("fate"),
        kind.alias("kind"),
        delay.round(2).alias("delay_ms"),
        "quantizer",
        (size / 1000.0).alias("size_kb"),
        (budget / 1000.0).alias("budget_kb"),
        "limited_by",
        ssim_db(polars.col("ssim")).round(2).alias("ssim_db"),
    )


def _limits(frames: polars.DataFrame) -> polars.DataFrame:
    """For each interval of a call, the share of frames that each limit decided, stacked from `low` to `high`."""
    known = frames.filter(polars.col("limited_by").is_in(list(LIMITS)))
    end = known["end"].max()
    if not isinstance(end, float) or end <= 0.0:
        return polars.DataFrame(schema={"time": polars.Float64, "end": polars.Float64, "limit": polars.String})
    length = end / LIMIT_BINS
    order = polars.col("limited_by").replace_strict(list(LIMITS), range(len(LIMITS)), return_dtype=polars.Int64)
    share = polars.col("len") / polars.col("len").sum().over("bin")
    return (
        known.with_columns((polars.col("time") / length).floor().clip(upper_bound=LIMIT_BINS - 1).alias("bin"))
        .group_by("bin", "limited_by")
        .len()
        .sort("bin", order)
        .with_columns(share.alias("share"))
        .with_columns(polars.col("share").cum_sum().over("bin").alias("high"))
        .select(
            (polars.col("bin") * length).round(4).alias("time"),
            ((polars.col("bin") + 1) * length).round(4).alias("end"),
            polars.col("limited_by").replace(LIMITS).alias("limit"),
            "share",
            (polars.col("high") - polars.col("share")).round(4).alias("low"),
            polars.col("high").round(4),
        )
    )


def _time_axis() -> altair.X:
    scale = altair.Scale(domainMin=altair.ExprRef("from"), domainMax=altair.ExprRef("to"), nice=False)
    return altair.X("time:Q", scale=scale, axis=altair.Axis(title=None, labelExpr="datum.label + ' s'"))


def _upwards(field: str, **scale: Any) -> altair.Y:
    return altair.Y(f"{field}:Q", scale=altair.Scale(**scale), axis=altair.Axis(title=None))


def _legend(colours: dict[str, str], **legend: Any) -> dict[str, Any]:
    return {
        "scale": altair.Scale(domain=list(colours), range=list(colours.values())),
        "legend": altair.Legend(title=None, orient="top", **legend),
    }


def _named(mark: altair.Chart, name: str, colours: dict[str, str], y: altair.Y, **legend: Any) -> altair.Chart:
    """`mark` over time, with the legend entry `name`."""
    colour = altair.Color("kind:N", **_legend(colours, **legend))
    return mark.transform_calculate(kind=f"'{name}'").encode(x=_time_axis(), y=y, color=colour)


def _titled(chart: Plot, title: str, subtitle: str, height: int) -> Plot:
    """`chart` with a title above it instead of a rotated title of its vertical axis."""
    return chart.properties(width=PLOT_WIDTH, height=height, title=altair.TitleParams(title, subtitle=subtitle))


def _data(name: str) -> altair.Chart:
    return altair.Chart(altair.NamedData(name))


def _column_tooltip(base: altair.Chart, tooltip: list[altair.Tooltip]) -> altair.Chart:
    """Invisible columns of full height, so that the tooltip shows all values at the pointer's time."""
    columns: altair.Chart = base.mark_bar(opacity=0, clip=True).encode(
        x=_time_axis(), x2="end:Q", y=altair.value(0), y2=altair.value("height"), tooltip=tooltip
    )
    return columns


def _tooltip(field: str, title: str, form: str = ".1f") -> altair.Tooltip:
    return altair.Tooltip(f"{field}:Q", title=title, format=form)


def _series_tooltip() -> list[altair.Tooltip]:
    return [
        _tooltip("time", "Time, s", ".1f"),
        _tooltip("capacity", "Capacity, Mb/s", ".2f"),
        _tooltip("sent", "Sent, Mb/s", ".2f"),
        _tooltip("received", "Received, Mb/s", ".2f"),
        _tooltip("target", "Target, Mb/s", ".2f"),
        _tooltip("estimate", "Estimate, Mb/s", ".2f"),
        _tooltip("queueing", "Queueing delay, ms"),
    ]


def _frame_tooltip() -> list[altair.Tooltip]:
    return [
        _tooltip("time", "Captured, s", ".3f"),
        _tooltip("capture", "Capture", "d"),
        altair.Tooltip("outcome:N", title="Outcome"),
        altair.Tooltip("kind:N", title="Kind"),
        _tooltip("delay_ms", "Video delay, ms"),
        _tooltip("size_kb", "Size, kB"),
        _tooltip("budget_kb", "Budget, kB"),
        altair.Tooltip("limited_by:N", title="Limited by"),
        _tooltip("quantizer", "Quantizer", "d"),
        _tooltip("ssim_db", "SSIM, dB"),
    ]


def _overview(end: float, brush: altair.Parameter) -> Plot:
    x = altair.X("time:Q", scale=altair.Scale(domain=[0, end], nice=False), axis=None)
    y = altair.Y("capacity:Q", axis=None)
    base = _data("series")
    area = base.mark_area(interpolate="step-after", color=CAPACITY, opacity=0.35).encode(x=x, y=y).add_params(brush)
    line = base.mark_line(color=RECEIVED, strokeWidth=1).encode(x=x, y=altair.Y("received:Q", axis=None))
    return altair.layer(area, line).properties(width=PLOT_WIDTH, height=38)


def _frame_overview(end: float, brush: altair.Parameter) -> Plot:
    x = altair.X("time:Q", scale=altair.Scale(domain=[0, end], nice=False), axis=None)
    base = _data("frames").mark_rule(color=CAPACITY, opacity=0.25)
    ticks: altair.Chart = base.encode(x=x).add_params(brush).properties(width=PLOT_WIDTH, height=38)
    return ticks


def _link(series: polars.DataFrame) -> Plot:
    colours = {"Capacity": CAPACITY, "Sent": SENT, "Received": RECEIVED}
    decided = {"Target": ("target", TARGET), "Estimate": ("estimate", ESTIMATE)}
    # Logs of earlier versions have no values of the controller.
    decided = {name: (field, colour) for name, (field, colour) in decided.items() if _any(series, field)}
    colours |= {name: colour for name, (_, colour) in decided.items()}
    base = _data("series")
    area = base.mark_area(interpolate="step-after", opacity=0.28, clip=True)
    line = base.mark_line(interpolate="step-after", strokeWidth=1.3, clip=True)
    # The lines often coincide: with a dashed estimate the target stays visible.
    dashes = {"target": [1, 0], "estimate": [6, 6]}
    scale = _rate_limits(series)
    square = {"symbolType": "square", "symbolOpacity": 1, "symbolDash": [1, 0]}
    layers = [
        _named(area, "Capacity", colours, _upwards("capacity", **scale), **square),
        _named(line, "Sent", colours, _upwards("sent", **scale), **square),
        _named(line, "Received", colours, _upwards("received", **scale), **square),
        *(
            _named(
                base.mark_line(interpolate="step-after", strokeWidth=1.6, strokeDash=dashes[field], clip=True),
                name,
                colours,
                _upwards(field, **scale),
                **square,
            )
            for name, (field, _) in decided.items()
        ),
        _column_tooltip(_data("series"), _series_tooltip()),
    ]
    subtitle = "Mb/s: capacity, sent into the link, received from it"
    if decided:
        subtitle += "; the controller's target and estimate"
    return _titled(altair.layer(*layers), "Link", subtitle, 170)


def _rate_limits(series: polars.DataFrame) -> dict[str, Any]:
    """Cuts the axis at 1.5 times the measured rates, so that a far higher target does not flatten them."""
    rates = [_times(series[name].max(), 1.5) for name in ("capacity", "sent", "received")]
    decided = [_times(series[name].max(), 1.05) for name in ("target", "estimate")]
    measured, wanted = max(rate or 0.0 for rate in rates), max(rate or 0.0 for rate in decided)
    return {"domain": [0, measured], "nice": False} if 0.0 < measured < wanted else {}


def _delay(frames: polars.DataFrame) -> Plot:
    base = _data("frames")
    colour = altair.Color("fate:N", **_legend(FATES))
    y = _upwards("delay_ms", type="log", nice=False, padding=8)
    line = base.mark_line(color=FATES["Displayed"], opacity=0.3, strokeWidth=1, clip=True)
    points = base.mark_point(filled=True, clip=True, opacity=0.9)
    skipped = altair.datum.fate != "Displayed"
    larger = altair.condition(skipped, altair.value(30), altair.value(9))
    layers = [
        line.encode(x=_time_axis(), y=y),
        points.encode(x=_time_axis(), y=y, color=colour, size=larger),
        points.transform_filter(skipped).encode(x=_time_axis(), y=y, color=colour, size=larger),
    ]
    if _any(frames, "delay_ms"):
        for share, name in ((0.5, "median"), (0.95, "p95")):
            value = frames["delay_ms"].quantile(share, "linear")
            rule = altair.Chart(altair.InlineData([{"label": name}]))
            at = rule.encode(y=altair.YDatum(value))
            layers.append(at.mark_rule(strokeDash=[3, 3], color=BUDGET, opacity=0.8))
            text = at.mark_text(align="left", baseline="middle", dx=6, color=BUDGET, fontSize=10)
            layers.append(text.encode(x=altair.value("width"), text="label:N"))
    layers.append(_column_tooltip(base, _frame_tooltip()))
    return _titled(
        altair.layer(*layers),
        "Video delay",
        "ms from each frame's capture until it or a later one is displayed",
        190,
    )


def _queueing() -> Plot:
    base = _data("series")
    area = base.mark_area(
        interpolate="step-after", color=QUEUEING, opacity=0.45, clip=True, invalid="break-paths-show-domains"
    )
    layers = altair.layer(area.encode(x=_time_axis(), y=_upwards("queueing")), _column_tooltip(base, _series_tooltip()))
    return _titled(layers, "Queueing delay", "ms in the link's queue, mean over delivered datagrams", 80)


def _size(frames: polars.DataFrame) -> Plot:
    base = _data("frames")
    colours = {**KINDS, "Budget": BUDGET}
    largest = frames["size_kb"].max()
    budgets = frames["budget_kb"].max()
    # Cut the axis, so that a budget far above all frames does not flatten them.
    limits = [limit for limit in (_times(largest, 2.0), _times(budgets, 1.05)) if limit]
    y_scale: dict[str, Any] = {"domain": [0, min(limits)], "nice": False} if limits else {}
    budget_line = base.mark_line(interpolate="step-after", strokeWidth=1.2, clip=True)
    budget = _named(budget_line, "Budget", colours, _upwards("budget_kb", **y_scale))
    ordinary = altair.datum.kind == "Frame"
    size = altair.condition(ordinary, altair.value(11), altair.value(36))
    points = base.mark_point(filled=True, opacity=0.85, clip=True).encode(
        x=_time_axis(),
        y=_upwards("size_kb", **y_scale),
        color=altair.Color("kind:N", **_legend(colours)),
        size=size,
    )
    layers = altair.layer(budget, points, _column_tooltip(base, _frame_tooltip()))
    return _titled(layers, "Frame size and budget", "kB of each frame, and its budget", 150)


def _quantizer() -> Plot:
    base = _data("frames")
    line = base.transform_filter("isValid(datum.quantizer)").mark_line(
        interpolate="step-after", color=QUANTIZER, strokeWidth=1.2, clip=True
    )
    layers = altair.layer(
        line.encode(
            x=_time_axis(), y=_upwards("quantizer", domain=[0, 127], nice=False).axis(title=None, values=[0, 64, 127])
        ),
        _column_tooltip(base, _frame_tooltip()),
    )
    return _titled(layers, "Quantizer", "index of the frames sent: 0 is finest, 127 coarsest", 90)


def _ssim() -> Plot:
    base = _data("frames")
    shown = base.transform_filter("isValid(datum.ssim_db)")
    y = _upwards("ssim_db", zero=False)
    layers = altair.layer(
        shown.mark_line(color=QUALITY, strokeWidth=1.2, clip=True).encode(x=_time_axis(), y=y),
        _column_tooltip(base, _frame_tooltip()),
    )
    return _titled(layers, "SSIM", "dB of the frames displayed, against the frames captured", 110)


def _held_back(limits: polars.DataFrame) -> Plot:
    present = set(limits["limit"])
    colours = {LIMITS[limit]: colour for limit, colour in LIMIT_COLOURS.items() if LIMITS[limit] in present}
    scale = altair.Scale(domain=[0, 1], nice=False)
    bars = (
        _data("limits")
        .mark_rect(clip=True)
        .encode(
            x=_time_axis(),
            x2="end:Q",
            y=altair.Y("low:Q", scale=scale, axis=altair.Axis(title=None, format="%", values=[0, 0.5, 1])),
            y2="high:Q",
            color=altair.Color("limit:N", **_legend(colours, columns=4, symbolType="square")),
            tooltip=[
                _tooltip("time", "From, s"),
                altair.Tooltip("limit:N", title="Limit"),
                _tooltip("share", "Share", ".0%"),
            ],
        )
    )
    return _titled(bars, "What held this call back", "share of the captured frames whose size each limit decided", 110)


def _distribution(field: str, name: str, whose: str, colour: str, scale: altair.Scale) -> Plot:
    base = (
        _data("frames")
        .transform_filter(f"isValid(datum.{field}) && datum.time >= from && datum.time <= to")
        .transform_window(sort=[altair.SortField(field)], frame=[None, None], share="cume_dist()")
    )
    share = altair.Y("share:Q", scale=altair.Scale(domain=[0, 1]), axis=altair.Axis(title=None, format="%"))
    x = altair.X(f"{field}:Q", scale=scale, axis=altair.Axis(title=None))
    tooltip = [_tooltip(field, name), _tooltip("share", "Share of frames", ".1%")]
    line = base.mark_line(interpolate="step-after", color=colour, strokeWidth=1.8).encode(x=x, y=share)
    points = base.mark_point(opacity=0, size=60).encode(x=x, y=share, tooltip=tooltip)
    return altair.layer(line, points).properties(
        width=PLOT_WIDTH // 2 - 60,
        height=220,
        title=altair.TitleParams(name, subtitle=f"share of {whose} at most this"),
    )


def _any(table: polars.DataFrame, name: str) -> bool:
    return table[name].null_count() < len(table)


def _times(value: Any, factor: float) -> float | None:
    return float(value) * factor if isinstance(value, int | float) and value > 0 else None
