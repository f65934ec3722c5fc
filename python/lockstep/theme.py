"""Appearance of charts: Vega configurations that match the page, light and dark."""

from typing import Any

from lockstep.charts import MARGIN_LEFT

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"
"""The system font, as in the page's style sheet."""


def configuration(*, dark: bool) -> dict[str, Any]:
    """The Vega-Lite `config` for charts on a dark or a light page. The background is transparent."""
    text, quiet, faint = ("#e6e8ec", "#98a0ad", "#2a2f38") if dark else ("#1b2029", "#667080", "#e7eaef")
    axis = {
        "labelColor": quiet,
        "labelFontSize": 11,
        "gridColor": faint,
        "domainColor": faint,
        "tickColor": faint,
        "labelPadding": 6,
        "tickSize": 4,
    }
    return {
        "background": "transparent",
        "font": FONT,
        "padding": 0,
        "view": {"stroke": None},
        "axis": axis,
        "axisX": {"grid": False, "tickCount": 10, "labelFlush": True},
        "axisY": {"domain": False, "ticks": False, "tickCount": 4, "minExtent": MARGIN_LEFT, "maxExtent": MARGIN_LEFT},
        "title": {
            "anchor": "start",
            "frame": "group",
            "color": text,
            "fontSize": 14,
            "fontWeight": 600,
            "subtitleColor": quiet,
            "subtitleFontSize": 12,
            "subtitlePadding": 4,
            "offset": 8,
        },
        "legend": {"labelColor": quiet, "labelFontSize": 11, "symbolSize": 60, "offset": 4, "symbolStrokeWidth": 2.5},
        "line": {"strokeJoin": "round"},
        "selection": {"interval": {"mark": {"fill": text, "fillOpacity": 0.08, "stroke": quiet}}},
    }
