"""`lockstep-report`: one self-contained HTML page on a call, from its JSON document and its per-frame log."""

import argparse
import functools
import json
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, TextIO

import altair
import jinja2
import polars
import vl_convert

from lockstep import __version__, charts, summary, theme
from lockstep.call_log import CallLogError, CallReport, load_call, load_frames
from lockstep.figure import FORMATS, VEGA_LITE_VERSION, specification, write_figures
from lockstep.module_command import ArgumentParser, print_error


def render_html(report: CallReport, frames: polars.DataFrame | None) -> str:
    """The report as one HTML page without external resources. Without `frames` it has only the link's charts."""
    data = charts.datasets(report, frames)
    payload = {
        "timeline": _specification(charts.timeline(data)),
        "distributions": _specification(charts.distributions(data)),
        "datasets": {name: table.to_dict(as_series=False) for name, table in data.items()},
        "end": charts.duration(data),
        "marginLeft": charts.MARGIN_LEFT,
        "marginRight": charts.MARGIN_RIGHT,
        "configs": {"light": theme.configuration(dark=False), "dark": theme.configuration(dark=True)},
    }
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(template), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    return environment.get_template("report.html.jinja").render(
        title=summary.title(report),
        description=summary.description(report),
        headlines=summary.headlines(report),
        scores=summary.scores(report),
        configuration=summary.configuration(report),
        counters=summary.counters(report),
        has_timeline=bool(payload["timeline"]),
        has_distributions=bool(payload["distributions"]),
        has_frames=frames is not None,
        lockstep=report.lockstep,
        version=__version__,
        payload=script_json(payload),
        vega=vega(),
    )


def render_png(report: CallReport, frames: polars.DataFrame | None, scale: float = 2.0) -> bytes:
    """The charts of the report as one PNG picture with `scale` pixels per point; needs no browser."""
    data = charts.datasets(report, frames)
    timeline = _specification(charts.timeline(data))
    distributions = _specification(charts.distributions(data))
    parts = [part for part in (timeline, distributions) if part]
    if not parts:
        raise CallLogError("cannot draw charts: the call has neither series nor frames")
    tables: dict[str, Any] = {name: table.to_dicts() for name, table in data.items()}
    for part in parts:
        tables |= part.pop("datasets", {})
    parameters = {parameter["name"]: parameter for part in reversed(parts) for parameter in part.pop("params", [])}
    whole = {
        "$schema": altair.SCHEMA_URL,
        "title": {"text": summary.title(report), "fontSize": 18, "offset": 18},
        "params": list(parameters.values()),
        "vconcat": parts,
        "spacing": 30,
        "padding": 20,
        "datasets": tables,
        "config": theme.configuration(dark=False) | {"background": "white"},
    }
    return vl_convert.vegalite_to_png(whole, vl_version=VEGA_LITE_VERSION, scale=scale)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = ArgumentParser(prog="lockstep-report", description=__doc__.partition(": ")[2])
    parser.add_argument("call", type=Path, help="document of `lockstep simulate --json` or `lockstep call --json`")
    parser.add_argument("--frames", type=Path, metavar="FRAMES", help="per-frame log of the call, .csv or .parquet")
    parser.add_argument(
        "--output", type=Path, default=Path("report.html"), help="file of the page (default: %(default)s)"
    )
    parser.add_argument("--png", type=Path, help="also write the charts as a picture to this file")
    figures_argument(parser)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    options = parser.parse_args(arguments)
    try:
        report = load_call(options.call)
        frames = None if options.frames is None else load_frames(options.frames)
        _write(options.output, render_html(report, frames).encode())
        print(f"report: {options.output.resolve().as_uri()}")
        if options.png is not None:
            _write(options.png, render_png(report, frames))
            print(f"picture: {options.png}")
        if options.figures is not None:
            data = charts.datasets(report, frames)
            print_figures(charts.figures(data), options.figures, data)
    except (CallLogError, OSError) as error:
        print_error("lockstep-report", error)
        return 1
    return 0


def figures_argument(parser: argparse.ArgumentParser) -> None:
    """Adds the argument `--figures` of every report."""
    parser.add_argument(
        "--figures", type=Path, metavar="DIR", help=f"also write each chart to this folder as {', '.join(FORMATS)}"
    )


def print_figures(
    plots: Mapping[str, charts.Plot],
    folder: Path,
    data: Mapping[str, polars.DataFrame] | None = None,
    file: TextIO | None = None,
) -> None:
    """Writes the plots to the folder, and prints its name to ``file`` or standard output."""
    write_figures(plots, folder, data)
    print(f"figures: {folder}", file=file)


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise CallLogError(f"{path}: {error.strerror or error}") from error


def _specification(chart: altair.VConcatChart | altair.HConcatChart) -> dict[str, Any]:
    """The chart without the parts that the page has once for all; empty if there is nothing to draw."""
    if not (chart.vconcat if isinstance(chart, altair.VConcatChart) else chart.hconcat):
        return {}
    return specification(chart)


def script_json(value: Any) -> str:
    """JSON that is safe inside a script element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@functools.cache
def vega() -> str:
    """Vega, Vega-Lite and vega-embed as JavaScript that is safe inside a script element."""
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE_VERSION)
    return bundle.replace("</script", "<\\/script")


def template(name: str) -> str:
    """The template `name` of this package."""
    return (resources.files("lockstep") / "templates" / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
