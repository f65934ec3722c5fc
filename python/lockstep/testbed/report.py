"""The report of an experiment: one page without external resources, from the files of the runs in its folder."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jinja2
import polars

from lockstep import __version__, theme
from lockstep.figure import specification
from lockstep.report import print_figures, script_json, template, vega
from lockstep.testbed import charts
from lockstep.testbed.experiments import SELF_TEST, Experiment, Printed, label
from lockstep.testbed.machine import machine_name
from lockstep.testbed.programs import TestbedError

DESCRIPTION = "experiment.json"
RUNS = "runs.parquet"


def run_name(cell: Mapping[str, Any]) -> str:
    """Name of the folder of a run in `runs`."""
    words = (str(cell[name]) for name in ("case", "program", "repeat"))
    return "-".join("".join(c if c.isalnum() else "_" for c in word) for word in words)


def describe(folder: Path, name: str, experiment: Experiment, sources: Mapping[str, str]) -> None:
    """Writes the description of the experiment for the report."""
    known = {
        "name": name,
        "number": experiment.number,
        "title": experiment.title,
        "note": experiment.note,
        "sources": dict(sources),
        "printed": [asdict(printed) for printed in experiment.printed],
        "machine": machine_name(),
    }
    (folder / DESCRIPTION).write_text(json.dumps(known))


def describe_printed(printed: Printed) -> str:
    """A figure of the paper as a line of text."""
    delays = "/".join("-" if math.isnan(value) else f"{value:.0f}" for value in (printed.p50, printed.p95))
    ssim = "-" if math.isnan(printed.ssim_db) else f"{printed.ssim_db:.1f}"
    return f"{printed.system}: {delays} ms (p50/p95, {printed.whose}), {ssim} dB"


def ruler_error(row: Mapping[str, Any]) -> str:
    """The error of the ruler itself, from the run without a link."""
    return (
        f"the camera's pictures, read directly, arrived {row['preview_late_p50_ms']:.1f} ms (p50) and "
        f"{row['preview_late_p99_ms']:.1f} ms (p99) after its schedule; the clock error is "
        f"{row['clock_error_ms']:.1f} ms; "
        f"reading takes {row['read_p99_ms']:.1f} ms (p99); a call without a link takes "
        f"{row['delay_p50_ms']:.0f}/{row['delay_p95_ms']:.0f} ms (p50/p95)"
    )


def write(folder: Path, figures: Path | None = None) -> Path:
    """Writes `report.html` to the folder of an experiment, and its charts to ``figures``; returns the page's path.

    Raises:
        TestbedError: If there are no runs in the folder.

    """
    try:
        known = json.loads((folder / DESCRIPTION).read_text())
        table = polars.read_parquet(folder / RUNS)
    except (OSError, ValueError) as error:
        raise TestbedError(f"cannot report on {folder}: no runs in it: {error}") from error
    runs = table.filter(polars.col("case") != SELF_TEST.name)
    floors = table.filter((polars.col("case") == SELF_TEST.name) & (polars.col("failed") == ""))
    counted = runs.filter("counted")
    printed = [Printed(**figure) for figure in known["printed"]]
    typical = _typical(counted)
    drawn = charts.charts(
        counted, printed, [(label(run["program"]), folder / "runs" / run_name(run)) for run in typical]
    )
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(template), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    page = environment.get_template("testbed.html.jinja").render(
        title=f"Testbed: {known['title']}",
        description=_description(known, runs),
        note=known["note"],
        headlines=_headlines(counted),
        rows=_rows(counted),
        printed=[_printed_row(figure) for figure in printed],
        left_out=[
            {
                "what": f"{row['case']}, {label(row['program'])}, run {row['repeat']}",
                "why": row["failed"] or row["reasons"],
                "numbers": "" if row["failed"] else _brief(row),
            }
            for row in runs.filter(~polars.col("counted")).iter_rows(named=True)
        ],
        ruler=[{"program": label(row["program"]), "error": ruler_error(row)} for row in floors.iter_rows(named=True)],
        moments=_moments(folder, typical),
        identical=_identical(counted),
        charts=list(drawn),
        payload=script_json(
            {
                "charts": {name: specification(plot) for name, plot in drawn.items()},
                "configs": {"light": theme.configuration(dark=False), "dark": theme.configuration(dark=True)},
            }
        ),
        vega=vega(),
        version=__version__,
        machine=known["machine"],
    )
    path = folder / "report.html"
    path.write_text(page, encoding="utf-8")
    if figures is not None:
        print_figures(drawn, figures)
    return path


def _description(known: Mapping[str, Any], runs: polars.DataFrame) -> str:
    links = "; ".join(f"{case}: {source}" for case, source in known["sources"].items())
    first = runs.row(0, named=True)
    repeats = len(runs["repeat"].unique())
    return (
        f"Unmodified programs over the same emulated link ({links}), {first['size']}, "
        f"{first['seconds']:g} s per run, {repeats} runs each."
    )


def _mean(values: polars.Series) -> float | None:
    value = values.drop_nulls().mean()
    return float(value) if isinstance(value, int | float) else None


def _figure(value: float | None, digits: int = 0) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:,.{digits}f}"


def _spread(values: polars.Series, digits: int = 0) -> tuple[str, str]:
    """Mean of the runs, and their range."""
    known = values.drop_nulls()
    if known.is_empty():
        return "–", ""
    low, mean, high = (float(value) for value in (known.min(), known.mean(), known.max()))  # type: ignore[arg-type]
    return f"{mean:,.{digits}f}", f"{low:,.{digits}f}–{high:,.{digits}f}" if len(known) > 1 else ""


def _rows(counted: polars.DataFrame) -> list[dict[str, Any]]:
    rows = []
    for (case, program), group in counted.group_by(["case", "program"], maintain_order=True):
        rows.append(
            {
                "case": case,
                "program": label(str(program)),
                "runs": len(group),
                "values": [
                    _spread(group["delay_p50_ms"]),
                    _spread(group["delay_p95_ms"]),
                    _spread(group["shown_delay_p50_ms"]),
                    _spread(group["shown_delay_p95_ms"]),
                    _spread(group["ssim_db"], 1),
                    # Runs of earlier versions lack it.
                    _spread(group.get_column("text_ssim_db", default=polars.Series(dtype=polars.Float64)), 1),
                    _spread(group["shown_per_second"], 1),
                    _spread(group["freezes"], 1),
                    _spread(group["forward_kbps"]),
                    _spread(group["load_sender"], 2),
                    _spread(group["load_receiver"], 2),
                    _spread(group["lateness_p99_ms"], 1),
                ],
            }
        )
    return rows


def _brief(row: Mapping[str, Any]) -> str:
    return f"{row['delay_p50_ms']:.0f}/{row['delay_p95_ms']:.0f} ms, {_figure(row['ssim_db'], 1)} dB"


def _printed_row(printed: Printed) -> dict[str, str]:
    return {
        "system": printed.system,
        "whose": printed.whose,
        "p50": _figure(printed.p50),
        "p95": _figure(printed.p95),
        "ssim": _figure(printed.ssim_db, 1),
    }


def _headlines(counted: polars.DataFrame) -> list[dict[str, str]]:
    """The p95 delay and SSIM of each program, over all links."""
    found = []
    for (program,), group in counted.group_by(["program"], maintain_order=True):
        p95, ssim = _mean(group["delay_p95_ms"]), _mean(group["ssim_db"])
        note = f"p95 delay; {_figure(ssim, 1)} dB SSIM, {len(group)} runs"
        found.append({"label": label(str(program)), "value": f"{_figure(p95)} ms", "note": note})
    return found


def _identical(counted: polars.DataFrame) -> str:
    compared = counted.filter(polars.col("identical").is_not_null())
    if compared.is_empty():
        return ""
    same, other = int(compared["identical"].sum()), int(compared["different"].sum())
    return f"{same} of {same + other} whole pictures that browsers displayed were identical to those decoded here"


def _typical(counted: polars.DataFrame) -> list[dict[str, Any]]:
    """For each program, the run over the first link with the median p95 delay."""
    if counted.is_empty():
        return []
    first = counted.filter(polars.col("case") == counted["case"][0])
    found = []
    for _, group in first.group_by(["program"], maintain_order=True):
        ordered = group.sort("delay_p95_ms")
        found.append(ordered.row((len(ordered) - 1) // 2, named=True))
    return found


def _moments(folder: Path, typical: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Displayed pictures of all programs and captured pictures at the same moments."""
    found: list[dict[str, Any]] = []
    for run in typical:
        try:
            details = json.loads((folder / "runs" / run_name(run) / "details.json").read_text())
        except (OSError, ValueError):
            continue
        moments = details["moments"]
        if not found:
            originals = [{"at": f"{moment['at']:.0f} s", "image": moment["original"]} for moment in moments]
            found.append({"name": "Captured", "images": originals})
        images = [{"at": f"{moment['at']:.0f} s", "image": moment["shown"]} for moment in moments]
        found.append({"name": label(run["program"]), "images": images})
    return found
