"""Figures as files: pages for the screen, vector graphics for papers, data, and the colours of controllers."""

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import altair
import polars
import vl_convert

from lockstep import theme
from lockstep.charts import Plot

COLOURS = ["#2f7fe0", "#e0902f", "#12a594", "#a855c7", "#e5484d", "#8a94a3", "#7c66dc", "#c2a000", "#d6409f", "#5c7a29"]
COLOURS += ["#1b4f8f", "#8f5a14", "#6b1f2b", "#333b44"]
"""Colours for names without a colour of their own, in this order."""
CONTROLLERS = ["lockstep", "sprout", "salsify", "gcc", "copa", "hindsight", "nada", "scream", "bob-heuristic", "bob"]
CONTROLLERS += ["concerto", "rlv", "hrcc", "gemini"]
"""Controllers with a fixed colour: the one in the same place of `COLOURS`."""
FORMATS = (".html", ".png", ".svg", ".pdf", ".csv")
COLUMN_WIDTH, COLUMN_HEIGHT, COLUMN_FONT = 230, 170, 8
"""Size in points of a figure in one column of a two-column paper (3.3 inches with its axis), and of its text."""
VEGA_LITE_VERSION = ".".join(altair.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
"""Version of Vega-Lite that Altair targets."""


class FigureError(Exception):
    """The figure cannot be written; the message gives the reason."""


def colours(names: Iterable[str]) -> list[str]:
    """One colour per name: that of the controller in every plot, and for other names an unused one."""
    names = list(names)
    fixed = {name: COLOURS[CONTROLLERS.index(name)] for name in names if name in CONTROLLERS}
    free = [colour for colour in COLOURS if colour not in fixed.values()] or COLOURS
    others = [name for name in names if name not in fixed]
    return [fixed.get(name) or free[others.index(name) % len(free)] for name in names]


def _is_invisible(layer: dict[str, Any]) -> bool:
    mark = layer.get("mark")
    return isinstance(mark, dict) and mark.get("opacity") == 0


def _for_a_column(specification: dict[str, Any]) -> None:
    """Changes sizes and fonts to those of one column of a paper."""
    if "width" in specification:
        specification["width"], specification["height"] = COLUMN_WIDTH, COLUMN_HEIGHT
    specification.pop("title", None)
    text = {"labelFontSize": COLUMN_FONT, "titleFontSize": COLUMN_FONT, "titleFontWeight": "normal"}
    config = specification["config"]
    for name in ("axis", "legend", "header"):
        config[name] = config.get(name, {}) | text
    config["axisY"] = config["axisY"] | {"minExtent": 0, "maxExtent": 200}
    config["text"] = {"fontSize": COLUMN_FONT}
    config["padding"] = 2

    def shrink(layer: dict[str, Any]) -> None:
        legend = layer.get("encoding", {}).get("color", {}).get("legend") or {}
        if "columns" in legend:
            legend["columns"] = 2
        mark = layer.get("mark")
        if isinstance(mark, dict):
            if "fontSize" in mark:
                mark["fontSize"] = COLUMN_FONT
            if "size" in mark and mark.get("type") == "point":
                mark["size"] = mark["size"] / 4
        # Invisible marks carry the tooltips of a page.
        if "layer" in layer:
            layer["layer"] = [inner for inner in layer["layer"] if not _is_invisible(inner)]
        for inner in layer.get("layer", []):
            shrink(inner)

    shrink(specification)


def _rows(specification: dict[str, Any]) -> bytes:
    """The data of a figure as CSV: that of the layer with the most rows."""
    tables: list[list[dict[str, Any]]] = list(specification.get("datasets", {}).values())
    rows = max(tables, key=len, default=[])
    text = io.StringIO()
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def specification(plot: Any) -> dict[str, Any]:
    """The plot for a page, without the parts that the page has once for all plots."""
    # The data of many frames have more rows than Altair's default limit.
    altair.data_transformers.disable_max_rows()
    whole: dict[str, Any] = plot.to_dict()
    for key in ("$schema", "config"):
        whole.pop(key, None)
    return whole


def _named_data(specification: dict[str, Any]) -> set[str]:
    """Names of the data sets that a figure refers to."""
    return set(re.findall(r'"data": {"name": "([^"]+)"}', json.dumps(specification)))


def render(plot: Plot, output: Path, datasets: Mapping[str, polars.DataFrame] | None = None) -> bytes:
    """The figure in the format of the suffix of ``output``.

    HTML loads no external resources. PDF and SVG have size and fonts of one column of a paper. CSV has the data.
    ``datasets`` has the data of plots that refer to it by name.

    Raises:
        FigureError: If the suffix is none of `FORMATS`.

    """
    altair.data_transformers.disable_max_rows()
    specification: dict[str, Any] = plot.to_dict()
    if datasets:
        used = _named_data(specification) & datasets.keys()
        rows = {name: datasets[name].to_dicts() for name in used}
        specification["datasets"] = specification.get("datasets", {}) | rows
    specification["config"] = theme.configuration(dark=False) | {"background": "white", "padding": 20}
    if output.suffix in (".svg", ".pdf"):
        _for_a_column(specification)
    match output.suffix:
        case ".html":
            page: str = vl_convert.vegalite_to_html(specification, vl_version=VEGA_LITE_VERSION, bundle=True)
            return page.encode()
        case ".png":
            return vl_convert.vegalite_to_png(specification, vl_version=VEGA_LITE_VERSION, scale=2.0)
        case ".svg":
            return vl_convert.vegalite_to_svg(specification, vl_version=VEGA_LITE_VERSION).encode()
        case ".pdf":
            return vl_convert.vegalite_to_pdf(specification, vl_version=VEGA_LITE_VERSION)
        case ".csv":
            return _rows(specification)
        case _:
            names = ", ".join(FORMATS)
            raise FigureError(f"cannot write figure {output}: expected a name that ends in {names}")


def write_figures(
    plots: Mapping[str, Plot], folder: Path, datasets: Mapping[str, polars.DataFrame] | None = None
) -> None:
    """Writes each plot to ``folder`` under its name, in every format.

    Raises:
        OSError: If a file cannot be written.

    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, plot in plots.items():
        for kind in FORMATS:
            path = folder / f"{name}{kind}"
            path.write_bytes(render(plot, path, datasets))
