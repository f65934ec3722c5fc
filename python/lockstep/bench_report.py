"""`lockstep-bench-report`: one self-contained HTML page on the codec, from the document of `lockstep bench codec`."""

import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jinja2

from lockstep import __version__, bench_charts, theme
from lockstep.bench_charts import Aim, BenchError, Clip, CodecBench, load
from lockstep.charts import Plot
from lockstep.figure import specification
from lockstep.module_command import ArgumentParser, print_error
from lockstep.report import figures_argument, print_figures, script_json, template, vega


class Headline(NamedTuple):
    """A number at the top of the page."""

    label: str
    value: str
    note: str


class AimRow(NamedTuple):
    """A row of the table of aims."""

    what: str
    aim: str
    median: str
    worst: str
    clip: str
    reached: str


def shown(value: float | None, unit: str) -> str:
    """A value in the unit of its aim."""
    if value is None:
        return "–"
    texts = {
        "%": f"{100 * value:+.1f} %" if value else "0 %",
        "share": f"{100 * value:.1f} %",
        "x": f"{value:.2f}×",
        "dB": f"{value:+.2f} dB" if value else "0 dB",
    }
    return texts.get(unit, f"{value:.0f}").replace("-", "−")


def aim_row(aim: Aim) -> AimRow:
    """The row of an aim in the table."""
    sign = {("lower", True): "below", ("lower", False): "at most", ("higher", True): "above"}
    relation = sign.get((aim.better, aim.strict), "at least")
    limits = [("on every clip", aim.worst_allowed), ("in the median", aim.median_allowed)]
    texts = [f"{relation} {shown(limit, aim.unit)} {where}" for where, limit in limits if limit is not None]
    unknown = f"not known on {aim.unknown_clip}" if aim.unknown_clip else "not measured"
    reached = {True: "reached", False: "not reached", None: unknown}[aim.reached]
    clip = aim.worst_clip or "–"
    return AimRow(aim.what, ", ".join(texts), shown(aim.median, aim.unit), shown(aim.worst, aim.unit), clip, reached)


def headlines(bench: CodecBench) -> list[Headline]:
    """The most important numbers."""
    measured = [aim for aim in bench.aims if aim.reached is not None]
    reached = sum(aim.reached is True for aim in measured)
    found = [Headline("Aims reached", f"{reached} of {len(measured)}", "of those measured")]
    for prefix, label in [
        ("real-time, BD-rate against --rt 4, PSNR, quantizers 15", "Bits against --rt 4"),
        ("real-time, speed against --rt -8", "Speed against --rt -8"),
        ("decoding, speed against libvpx", "Decoding against libvpx"),
    ]:
        aim = next((aim for aim in bench.aims if aim.what.startswith(prefix)), None)
        if aim is not None and aim.median is not None:
            note = f"median; worst {shown(aim.worst, aim.unit)} on {aim.worst_clip}"
            found.append(Headline(label, shown(aim.median, aim.unit), note))
    return found


COLUMNS = [
    "clip",
    "size",
    "pictures/s",
    "× −8",
    "bits/−rt 4",
    "bits/−good 0",
    "decoding",
    "hash",
    "menu of 2",
    "of 3",
    "key frame",
    "fit time",
    "fill",
    "over",
]
"""Column heads of the table of clips."""


def clip_row(clip: Clip) -> list[str]:
    """The row of a clip in the table; BD-rates are PSNR over the coarse points."""

    def pair(ours: str, against: str) -> Any:
        return next((one for one in clip.comparisons if (one.ours, one.against) == (ours, against)), None)

    def rate(ours: str, against: str) -> str:
        found = pair(ours, against)
        return shown(found.bd_rate_psnr.get("coarse") if found else None, "%")

    eight = pair("lockstep real-time", "libvpx --rt -8")
    decoding = [stream.speed_ratio for stream in clip.decoding if stream.speed_ratio is not None]
    hashes = [stream.hash_time for stream in clip.decoding]
    speed = next((one.frames_per_second for one in clip.encoders if one.name == "lockstep real-time"), None)
    return [
        clip.name,
        f"{clip.width}×{clip.height}",
        shown(speed, ""),
        shown(eight.speed_ratio if eight else None, "x"),
        rate("lockstep real-time", "libvpx --rt 4"),
        rate("lockstep quality", "libvpx --good 0"),
        shown(statistics.median(decoding) if decoding else None, "x"),
        f"{100 * max(hashes):.1f} %" if hashes else "–",
        shown(clip.menus.two, "x"),
        shown(clip.menus.three, "x"),
        shown(clip.menus.key_frame, "x"),
        shown(clip.fits.time, "x"),
        f"{100 * clip.fits.fill_median:.0f} %",
        f"{clip.fits.over} of {clip.fits.frames}",
    ]


def plots(bench: CodecBench) -> dict[str, Plot]:
    """The charts of the report by name."""
    charts: dict[str, Plot] = {
        "rates": bench_charts.rates(bench),
        "speeds": bench_charts.speeds(bench),
        "psnr": bench_charts.curves(bench, "psnr_db"),
        "ssim": bench_charts.curves(bench, "ssim_db"),
        "drift": bench_charts.drift(bench),
        "hull": bench_charts.hull(bench, "psnr"),
        "hull_ssim": bench_charts.hull(bench, "ssim"),
    }
    if not any(clip.tradeoffs for clip in bench.clips):
        del charts["hull"], charts["hull_ssim"]
    if bench.libvpx is None:
        del charts["rates"], charts["speeds"]
    if not any(clip.drift for clip in bench.clips):
        del charts["drift"]
    return charts


def render_html(bench: CodecBench) -> str:
    """The report as one HTML page without external resources."""
    charts = plots(bench)
    payload = {
        "charts": {name: specification(chart) for name, chart in charts.items()},
        "configs": {"light": theme.configuration(dark=False), "dark": theme.configuration(dark=True)},
    }
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(template), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    compared = (
        f"libvpx {bench.libvpx.removeprefix('v')}" if bench.libvpx else "no other codec, since libvpx was not found"
    )
    clock = "of core time" if bench.clock == "core" else "of wall-clock time"
    return environment.get_template("bench.html.jinja").render(
        title="The codec over a set of clips",
        description=(
            f"{len(bench.clips)} clips of at most {bench.pictures} pictures, compared with {compared}. One thread; "
            f"seconds are {clock}, the median of {bench.rounds} interleaved rounds."
        ),
        headlines=headlines(bench),
        aims=[aim_row(aim) for aim in bench.aims],
        columns=COLUMNS,
        clips=[clip_row(clip) for clip in bench.clips],
        charts=set(charts),
        lockstep=bench.lockstep,
        version=__version__,
        payload=script_json(payload),
        vega=vega(),
    )


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = ArgumentParser(prog="lockstep-bench-report", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument("bench", type=Path, help="document of `lockstep bench codec --json`")
    parser.add_argument(
        "--output", type=Path, default=Path("codec.html"), help="file of the page (default: %(default)s)"
    )
    figures_argument(parser)
    options = parser.parse_args(arguments)
    try:
        bench = load(options.bench)
        page = render_html(bench)
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(page, encoding="utf-8")
        if options.figures is not None:
            print_figures(plots(bench), options.figures)
    except (BenchError, OSError) as error:
        print_error("lockstep-bench-report", error)
        return 1
    print(f"report: {options.output.resolve().as_uri()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
