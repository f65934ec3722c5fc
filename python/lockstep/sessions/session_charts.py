"""Charts of the report on session logs, as Vega-Lite specifications."""

from collections.abc import Iterable
from typing import Any

import altair
import polars

from lockstep.charts import Plot
from lockstep.figure import colours as colours_of
from lockstep.sessions.measure import ENOUGH, POOR_LOSS, POOR_RTT_MS, Codec, Figures, Group

WIDTH, HEIGHT = 470, 240
"""Size of one of two adjacent plots, pixels."""
POOR = "#e5484d"
"""Colour of poor sessions and of their thresholds."""
DASHES = {"codec": [1, 0], "transport": [5, 3]}
"""Dashes of codec and transport in plots with both."""


def poor(figures: Figures) -> altair.HConcatChart:
    """Shares of poor sessions: by access network, by place, and by hour."""
    groups = [("by access network", figures.by["access"]), ("by place", figures.by["place"])]
    stacked = altair.vconcat(*(_bars(title, groups) for title, groups in groups), spacing=18)
    if not figures.by["hour"]:
        return altair.hconcat(stacked)
    return altair.hconcat(stacked, _hours(figures.by["hour"]), spacing=44)


def _groups(groups: list[Group]) -> polars.DataFrame:
    rows = [{"name": group.name, "count": group.count, "poor": 100 * group.poor} for group in groups]
    return polars.DataFrame(rows)


_TOOLTIP = [
    altair.Tooltip("name:N", title=" "),
    altair.Tooltip("poor:Q", title="poor, %", format=".1f"),
    altair.Tooltip("count:Q", title="sessions or windows", format=","),
]


def _title(text: str, subtitle: str) -> altair.TitleParams:
    return altair.TitleParams(text, subtitle=subtitle)


def _bars(title: str, groups: list[Group]) -> Plot:
    base = altair.Chart(_groups(groups)).encode(y=altair.Y("name:N", sort=None, axis=altair.Axis(title=None)))
    x = altair.X("poor:Q", axis=altair.Axis(title=None, tickCount=5), scale=altair.Scale(domainMin=0, nice=True))
    bars = base.mark_bar(color=POOR, height={"band": 0.6}).encode(x=x, tooltip=_TOOLTIP)
    text = base.mark_text(align="left", dx=5, fontSize=11, color="#8a94a3").encode(
        x=x, text=altair.Text("poor:Q", format=".1f")
    )
    chart: Plot = altair.layer(bars, text).properties(
        width=WIDTH - 60, height=altair.Step(24), title=_title(f"Poor sessions {title}", "% of sessions")
    )
    return chart


def _hours(groups: list[Group]) -> Plot:
    hours = [str(hour) for hour in range(24)]
    x = altair.X("name:O", scale=altair.Scale(domain=hours), axis=altair.Axis(title=None, labelAngle=0))
    # A share of few windows is uncertain, so it is pale. An hour without windows keeps its place.
    opacity = altair.condition(f"datum.count >= {ENOUGH}", altair.value(1.0), altair.value(0.3))
    few = any(group.count < ENOUGH for group in groups)
    subtitle = "% of windows" + (f"; pale where there are fewer than {ENOUGH}" if few else "")
    chart: altair.Chart = (
        altair.Chart(_groups(groups))
        .mark_bar(color=POOR, width={"band": 0.72})
        .encode(x=x, y=altair.Y("poor:Q", axis=altair.Axis(title=None)), opacity=opacity, tooltip=_TOOLTIP)
        .properties(width=WIDTH, height=HEIGHT, title=_title("Poor sessions by hour of local time", subtitle))
    )
    return chart


def network(figures: Figures) -> altair.HConcatChart:
    """Distributions of round-trip times and losses of sessions, by access network."""
    names = list(dict.fromkeys([*figures.rtt_ms, *figures.loss]))
    rtt = [(name, "", value, share) for name, values in figures.rtt_ms.items() for share, value in _points(values)]
    loss = [
        (name, "", max(100 * value, 0.01), share)
        for name, values in figures.loss.items()
        for share, value in _points(values)
    ]
    charts: list[Plot] = []
    if rtt:
        scale = altair.Scale(type="log", nice=False)
        charts.append(_distribution(rtt, names, "Mean round-trip time", "ms", scale, limit=POOR_RTT_MS))
    if loss:
        scale = altair.Scale(type="log", nice=False, domainMin=0.01)
        title = "Packets lost"
        charts.append(_distribution(loss, names, title, "%; left edge: 0.01 or less", scale, limit=100 * POOR_LOSS))
    return _adjacent(charts)


def _adjacent(charts: list[Plot]) -> altair.HConcatChart:
    """Adjacent plots, each with its legend inside, where distributions leave space."""
    adjacent = altair.hconcat(*charts, spacing=44)
    whole: altair.HConcatChart = adjacent.resolve_legend(color="independent", strokeDash="independent")
    return whole


def _points(values: list[float]) -> Iterable[tuple[float, float]]:
    return ((float(share), value) for share, value in enumerate(values))


def rates(codecs: list[Codec]) -> altair.HConcatChart:
    """Distributions of the rates of codec and transport, and of their difference."""
    names = [codec.name for codec in codecs]
    both = [
        (codec.name, kind, value / 1e6, share)
        for codec in codecs
        for kind, values in (("codec", codec.codec_bps), ("transport", codec.transport_bps))
        for share, value in _points(values)
    ]
    apart = [(codec.name, "", value, share) for codec in codecs for share, value in _points(codec.apart_percent)]
    linear = altair.Scale(nice=True, domain=[-100, 200], clamp=True)
    slow = altair.Scale(type="log", nice=False, domainMin=0.03, clamp=True)
    charts = [
        _distribution(both, names, "Bit rates of codec and transport", "Mb/s", slow),
        _distribution(apart, names, "Codec above or below the transport", "% of the transport's rate", linear, limit=0),
    ]
    return _adjacent(charts)


def following(codecs: list[Codec]) -> altair.HConcatChart:
    """Times from a drop until the codec has followed, and until codec and transport have recovered."""
    names = [codec.name for codec in codecs]
    reduced = [(codec.name, "", second, 100 * share) for codec in codecs for second, share in codec.reduction.cdf]
    back = [
        (codec.name, kind, max(second, 1.0), 100 * share)
        for codec in codecs
        for kind, times in (("codec", codec.recovery), ("transport", codec.transport_recovery))
        for second, share in times.cdf
    ]
    charts: list[Plot] = []
    if reduced:
        scale = altair.Scale(nice=False, domain=[0, 10], clamp=True)
        charts.append(_distribution(reduced, names, "Reduction: the codec has followed", "s after the drop", scale))
    if back:
        scale = altair.Scale(type="log", nice=False)
        charts.append(_distribution(back, names, "Recovery: the rate has recovered", "s after the drop", scale))
    return _adjacent(charts)


def _distribution(  # noqa: PLR0913
    rows: list[tuple[str, str, float, float]],
    names: list[str],
    title: str,
    unit: str,
    scale: altair.Scale,
    *,
    limit: float | None = None,
) -> Plot:
    """Cumulative distributions from rows of name, kind, value and percentage: a line for each name and kind."""
    table = polars.DataFrame(rows, schema=["name", "kind", "value", "share"], orient="row")
    colours = altair.Scale(domain=names, range=colours_of(names))
    encoded: dict[str, Any] = {
        "x": altair.X("value:Q", scale=scale, axis=altair.Axis(title=None, tickCount=6)),
        "y": altair.Y("share:Q", scale=altair.Scale(domain=[0, 100]), axis=altair.Axis(title=None, tickCount=5)),
        "color": altair.Color(
            "name:N", scale=colours, legend=altair.Legend(title=None, orient="bottom-right", offset=12)
        ),
        "order": altair.Order("share:Q"),
        "tooltip": [
            altair.Tooltip("name:N", title=" "),
            altair.Tooltip("value:Q", title=unit.partition(";")[0], format=".3~g"),
            altair.Tooltip("share:Q", title="% at most", format=".0f"),
        ],
    }
    if any(kind for _, kind, _, _ in rows):
        dash = altair.Scale(domain=list(DASHES), range=list(DASHES.values()))
        encoded["strokeDash"] = altair.StrokeDash(
            "kind:N", scale=dash, legend=altair.Legend(title=None, orient="bottom-right", offset=12)
        )
    layers: list[Any] = [
        altair.Chart(table).mark_line(strokeWidth=2, clip=True, interpolate="step-after").encode(**encoded)
    ]
    if limit is not None:
        rule = altair.Chart(polars.DataFrame({"limit": [limit]})).mark_rule(color=POOR, strokeDash=[2, 3])
        layers.append(rule.encode(x=altair.X("limit:Q", scale=scale)))
    chart: Plot = altair.layer(*layers).properties(
        width=WIDTH,
        height=HEIGHT,
        title=_title(title, f"% with at most this value, {unit}" if limit is None else f"% at most, {unit}"),
    )
    return chart
