"""``lockstep sessions report DIR``: Concerto's measurements on the session logs in a folder."""

import json
import sys
from pathlib import Path
from typing import NamedTuple

import jinja2
import msgspec

from lockstep import __version__, theme
from lockstep.charts import Plot
from lockstep.figure import specification
from lockstep.module_command import ArgumentParser, print_text
from lockstep.quantities import bit_rate, count, percent
from lockstep.report import figures_argument, print_figures, script_json, template, vega
from lockstep.sessions import session_charts
from lockstep.sessions.database import MEMORY, connect, find
from lockstep.sessions.measure import ENOUGH, NIGHT, POOR_LOSS, POOR_RTT_MS, Codec, Figures, Group, Times, measure
from lockstep.sessions.reaction import BEFORE, CHANGE, MAX_SECONDS, RECOVERED, REDUCED

POOR = (
    f"A session is poor if its mean round-trip time is above {POOR_RTT_MS:.0f} ms or more than "
    f"{100 * POOR_LOSS:.0f} % of its packets are lost. By hour, the same holds for the part of a session in each hour."
)
FOLLOWS = (
    f"A drop is a second in which the transport's rate is at most {100 * CHANGE:.0f} % of that of the second before. "
    f"The codec has followed it when its rate is at most {100 * REDUCED:.0f} % of the transport's. A rate has "
    f"recovered at {100 * RECOVERED:.0f} % of its mean over the {BEFORE} s before the drop. Shares are of all drops. "
    f"Events after the end of the session, or after {MAX_SECONDS // 60} minutes, do not count."
)
NAMES = {
    "place": "Place",
    "access": "Access network",
    "hour": "Hour of local time",
    "controller": "Controller",
    "codec": "Codec",
}
COLUMNS = [
    "updates of the codec's rate per minute",
    "updates of the transport's rate per minute",
    "codec's rate, p50",
    "transport's rate, p50",
    "difference, p50",
    "difference, p95",
    "drops per minute",
    "reduction, mean",
    "reduction, p95",
    "reduction, never",
    "recovery of the codec, mean",
    "recovery of the codec, p95",
    "recovery of the codec, never",
    "recovery of the transport, mean",
    "recovery of the transport, p95",
    "recovery of the transport, never",
]


class Published(NamedTuple):
    """A figure of the paper with the measured one."""

    what: str
    paper: str
    here: str


def published(figures: Figures) -> list[Published]:
    """The paper's figures with those measured here."""
    codec = next((codec for codec in figures.codecs if codec.name == "conventional"), None)

    def spread(split: str) -> str:
        groups = figures.by[split]
        return ", ".join(f"{group.name} {percent(group.poor)}" for group in groups) if groups else "not given"

    night = [group for group in figures.by["hour"] if int(group.name) in NIGHT]
    day = [group for group in figures.by["hour"] if int(group.name) not in NIGHT]

    def hours(groups: list[Group]) -> str:
        windows = sum(group.count for group in groups)
        if windows < ENOUGH:
            return f"fewer than {ENOUGH} windows"
        return percent(sum(group.count * group.poor for group in groups) / windows)

    def load() -> str:
        by_night, by_day = (sum(group.count for group in groups) for groups in (night, day))
        if by_night < ENOUGH:
            return f"fewer than {ENOUGH} windows from 1 to 8 am"
        return f"{by_day / (24 - len(NIGHT)) / (by_night / len(NIGHT)):.1f} times"

    back = f"{_seconds(codec.recovery.mean)}, p95 {_seconds(codec.recovery.p95)}" if codec else "no conventional codec"
    updates = (
        f"per minute: codec {_number(codec.codec_updates_per_minute)}, "
        f"transport {_number(codec.transport_updates_per_minute)}"
        if codec
        else "no conventional codec"
    )
    apart = f"half of the seconds within {_apart(codec, 50)}, 95 % within {_apart(codec, 95)}" if codec else "–"
    return [
        Published("Sessions", "1,016,652", count(figures.sessions)),
        Published("Mean length", "1.33 h", f"{figures.seconds / figures.sessions / 3_600:.2f} h"),
        Published("Poor session ratio", "over 20 %", percent(figures.all.poor)),
        Published("… by round-trip time", "over 10 % (figure 2)", percent(figures.all.slow)),
        Published("… by loss", "over 20 % (figure 2)", percent(figures.all.lossy)),
        Published("… by place", "at least 12 %, over half of the regions 20 % (figure 3)", spread("place")),
        Published("… from 1 to 8 am", "17.5 % (figure 4)", hours(night)),
        Published("… in other hours", "28.5 % (figure 4)", hours(day)),
        Published("Load in other hours over that from 1 to 8 am", "10 times (figure 4)", load()),
        Published("… by access network", "WiFi 18 %, 4G 34 %, 3G 54 % (figure 5)", spread("access")),
        Published(
            "Difference of codec and transport rates",
            "codec up to twice the target within a second; larger differences for lower targets (figures 11 and 12)",
            apart,
        ),
        Published(
            "Time until the bit rate has recovered",
            "over 150 s, full-throttle source 20 s (one run, figure 8); 4.8 times as long in the mean (figure 10)",
            back,
        ),
        Published(
            "Updates",
            "50.6 % of GCC's with a full-throttle source, until the rate has recovered (figure 14)",
            updates,
        ),
        Published(
            "Video against a full-throttle source",
            "throughput 21.6 % lower, loss 4.8 % against 0.44 %, delay 304 against 141 ms (figure 7)",
            "no session has such a source: lockstep study concerto",
        ),
    ]


def _number(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} s"


def _apart(codec: Codec, share: int) -> str:
    """Largest difference of codec and transport rates in this percentage of seconds, in either direction."""
    distances = sorted(abs(value) for value in codec.apart_percent)
    return f"{distances[share]:.0f} %"


def _never(times: Times) -> str:
    return "–" if times.share is None else percent(1 - times.share)


def codec_row(codec: Codec) -> list[str]:
    """The row of a codec, in the order of `COLUMNS` after its name."""
    return [
        codec.name,
        _number(codec.codec_updates_per_minute),
        _number(codec.transport_updates_per_minute),
        bit_rate(codec.codec_bps[50]),
        bit_rate(codec.transport_bps[50]),
        _apart(codec, 50),
        _apart(codec, 95),
        _number(codec.drops_per_minute, 2),
        _seconds(codec.reduction.mean),
        _seconds(codec.reduction.p95),
        _never(codec.reduction),
        _seconds(codec.recovery.mean),
        _seconds(codec.recovery.p95),
        _never(codec.recovery),
        _seconds(codec.transport_recovery.mean),
        _seconds(codec.transport_recovery.p95),
        _never(codec.transport_recovery),
    ]


def group_row(group: Group) -> list[str]:
    """The row of sessions or windows with a common property."""
    return [group.name, count(group.count), percent(group.poor), percent(group.slow), percent(group.lossy)]


def _splits(figures: Figures) -> list[tuple[str, list[Group]]]:
    """The groupings that have several groups."""
    return [(NAMES[split], groups) for split, groups in figures.by.items() if len(groups) > 1 or split == "access"]


def text(figures: Figures) -> str:
    """The report for a terminal."""
    lines = [
        f"{count(figures.sessions)} sessions, {count(figures.seconds)} seconds",
        "",
    ]
    for name, groups in [("", [figures.all]), *_splits(figures)]:
        unit = "windows" if name == NAMES["hour"] else "sessions"
        rows = [[name or "poor sessions", unit, "poor", "slow", "lossy"], *map(group_row, groups)]
        lines += [*_table(rows), ""]
    if figures.codecs:
        rows = [["codec", *COLUMNS], *map(codec_row, figures.codecs)]
        lines += [*_table(_transposed(rows)), ""]
    rows = [["", "Concerto's paper", "here"], *([row.what, row.paper, row.here] for row in published(figures))]
    return "\n".join([*lines, *_table(rows, ragged=True)])


def _transposed(rows: list[list[str]]) -> list[list[str]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _table(rows: list[list[str]], *, ragged: bool = False) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if ragged:
        return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    first, *others = widths
    return [
        "  ".join([row[0].ljust(first), *(cell.rjust(width) for cell, width in zip(row[1:], others, strict=True))])
        for row in rows
    ]


class Split(NamedTuple):
    """A table of the page."""

    name: str
    rows: list[list[str]]


def plots(figures: Figures) -> dict[str, Plot]:
    """The charts of the report by name."""
    charts: dict[str, Plot] = {"poor": session_charts.poor(figures), "network": session_charts.network(figures)}
    if figures.codecs:
        charts["rates"] = session_charts.rates(figures.codecs)
        following = session_charts.following(figures.codecs)
        if following.hconcat:
            charts["following"] = following
    return charts


def render_html(figures: Figures) -> str:
    """The report as one HTML page without external resources."""
    charts = plots(figures)
    payload = {
        "charts": {name: specification(chart) for name, chart in charts.items()},
        "configs": {"light": theme.configuration(dark=False), "dark": theme.configuration(dark=True)},
    }
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(template), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    rtt = [(of[50], name) for name, of in figures.rtt_ms.items()]
    worst = max(figures.by["access"], key=lambda group: group.poor)
    return environment.get_template("sessions.html.jinja").render(
        title=f"{count(figures.sessions)} sessions",
        description=(
            f"{count(figures.seconds)} seconds of calls, with Concerto's measurements (MobiCom 2019, section 2)."
        ),
        headlines=[
            {"label": label, "value": value, "note": note}
            for label, value, note in [
                ("Poor sessions", percent(figures.all.poor), f"{percent(worst.poor)} over {worst.name}, the most"),
                ("Too slow", percent(figures.all.slow), f"mean round-trip time above {POOR_RTT_MS:.0f} ms"),
                ("Too lossy", percent(figures.all.lossy), f"more than {100 * POOR_LOSS:.0f} % of the packets"),
                (
                    "Round-trip time",
                    f"{max(rtt)[0]:.0f} ms" if rtt else "–",
                    f"median over {max(rtt)[1]}, the slowest" if rtt else "not measured",
                ),
            ]
        ],
        poor=POOR,
        # The chart shows the hours.
        splits=[
            Split(name, [group_row(group) for group in groups])
            for name, groups in _splits(figures)
            if name != NAMES["hour"]
        ],
        follows=FOLLOWS,
        columns=[codec.name for codec in figures.codecs],
        codecs=_transposed([COLUMNS, *(codec_row(codec)[1:] for codec in figures.codecs)]),
        paper="The paper measured a mobile video telephony service for a month. Populations and paths differ.",
        published=published(figures),
        charts=set(charts),
        version=__version__,
        payload=script_json(payload),
        vega=vega(),
    )


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = ArgumentParser(
        prog="lockstep sessions report",
        description="Concerto's measurements (MobiCom 2019, section 2) on the session logs in a folder.",
    )
    parser.add_argument("folder", metavar="DIR", help="folder of the logs")
    parser.add_argument("--output", type=Path, help="file for a page with charts, .html")
    parser.add_argument("--json", type=Path, help="file for all figures as JSON; `-` is standard output")
    parser.add_argument("--memory", default=MEMORY, help=f"memory limit of the database ({MEMORY})")
    parser.add_argument("--threads", type=int, default=None, help="threads of the database (default: one per core)")
    figures_argument(parser)
    options = parser.parse_args(arguments)
    logs = find(options.folder)
    with connect(logs, memory=options.memory, threads=options.threads) as database:
        figures = measure(database, logs)
    to_standard_output = str(options.json) == "-"
    out = sys.stderr if to_standard_output else sys.stdout
    print_text(text(figures), out)
    if options.json is not None:
        numbers = json.dumps(msgspec.to_builtins(figures), indent=2, allow_nan=False) + "\n"
        if to_standard_output:
            sys.stdout.write(numbers)
        else:
            _write(options.json, numbers)
    if options.output is not None:
        _write(options.output, render_html(figures))
        print(f"\nreport: {options.output.resolve().as_uri()}", file=out)
    if options.figures is not None:
        print_figures(plots(figures), options.figures, file=out)
    return 0


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
