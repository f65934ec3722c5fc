import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import polars
import pytest

from lockstep import __version__, charts, summary, version
from lockstep.call_log import CallReport, Series, load_call, load_frames
from lockstep.figure import FORMATS
from lockstep.report import main, render_html, render_png

NOTHING = CallReport(lockstep="0.1.0", kind="simulate")


class References(HTMLParser):
    """Collects the resources that a page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [f"{tag} {value}" for name, value in attrs if name in ("src", "href") and value]


def payload(page: str) -> dict[str, Any]:
    match = re.search(r"^const report = (.*);$", page, re.MULTILINE)
    assert match is not None
    value: dict[str, Any] = json.loads(match[1])
    return value


def test_page_loads_no_external_resource(call: tuple[Path, Path]) -> None:
    page = render_html(load_call(call[0]), load_frames(call[1]))
    references = References()
    references.feed(page)
    assert references.found == []
    assert "@import" not in page
    assert len(page) < 1_500_000


def test_page_shows_every_score_with_its_definition(call: tuple[Path, Path]) -> None:
    report = load_call(call[0])
    page = render_html(report, load_frames(call[1]))
    scores = summary.scores(report)
    assert len(scores) == 43
    for score in scores:
        assert score.name in page
        assert score.value in page
        assert score.value != "–"
        assert score.definition.endswith(".")


NEW_SCORES = [
    *("one_way_delay_ms", "queueing_delay_ms", "packet_loss", "target_smoothness_bps", "estimate_smape_percent"),
    *("estimate_accuracy", "network", "vmaf", "vmaf_missing", "total", "video_delay_floor_ms", "near_floor"),
    *("displayed_delay_ms", "frames_per_second", "harmonic_frame_rate", "freezes"),
]


def test_call_of_an_earlier_version_keeps_its_scores(call: tuple[Path, Path]) -> None:
    document = json.loads(call[0].read_text())
    for name in NEW_SCORES:
        del document[name]
    del document["series"]["target_bps"], document["series"]["estimate_bps"]
    call[0].write_text(json.dumps(document))
    report = load_call(call[0])
    assert len(summary.scores(report)) == 19
    page = render_html(report, None)
    assert '"Capacity","Sent","Received"]' in page
    assert '"Estimate"' not in page


def test_displayed_delay_and_freezes_are_scores(
    call: tuple[Path, Path],
) -> None:
    report = load_call(call[0])
    scores = {score.name: score.value for score in summary.scores(report)}
    assert report.displayed_delay_ms is not None
    assert scores["Displayed delay, median"] == f"{report.displayed_delay_ms.p50:.0f}\N{NO-BREAK SPACE}ms"
    assert (scores["Freezes"], scores["Longest freeze"]) == ("2", "0.23\N{NO-BREAK SPACE}s")
    stalls = next(headline for headline in summary.headlines(report) if headline.label == "Stalls")
    assert stalls.note == "2 freezes, the longest 0.23\N{NO-BREAK SPACE}s"


def test_missing_vmaf_has_a_reason(call: tuple[Path, Path]) -> None:
    document = json.loads(call[0].read_text()) | {"vmaf": None, "vmaf_missing": "not asked for", "total": None}
    call[0].write_text(json.dumps(document))
    scores = {score.name: score for score in summary.scores(load_call(call[0]))}
    assert scores["VMAF"].value == "–"
    assert scores["VMAF"].definition == "Not measured: not asked for."
    assert "Total, BoB" not in scores


def test_qoe_bound_is_shown_if_computed(call: tuple[Path, Path]) -> None:
    definition = "The same for applications that favour low delay."
    document = json.loads(call[0].read_text())
    for bound, expected in [
        ({}, definition),
        ({"qoe_d_bound": 4.5}, f"{definition} The upper bound for any controller in this call is 4.50."),
    ]:
        call[0].write_text(json.dumps(document | bound))
        scores = {score.name: score for score in summary.scores(load_call(call[0]))}
        assert scores["QoE weighted for delay"].definition == expected


def test_chart_of_the_link_has_target_and_estimate(call: tuple[Path, Path]) -> None:
    report = load_call(call[0])
    page = render_html(report, None)
    assert '"Capacity","Sent","Received","Target","Estimate"]' in page
    assert payload(page)["datasets"]["series"]["target"][3] == round((report.series.target_bps[3] or 0) / 1e6, 4)


def test_huge_target_does_not_flatten_the_rates() -> None:
    series = Series(capacity_bps=[1e6, 2e6], sent_bps=[1e6, 1e6], target_bps=[None, 1e9])
    data = charts.datasets(CallReport(lockstep="", kind="call", series=series), None)
    assert "'domain': [0, 3.0]" in str(charts.timeline(data).to_dict())


def test_page_contains_each_frame_once(call: tuple[Path, Path]) -> None:
    frames = load_frames(call[1])
    data = payload(render_html(load_call(call[0]), frames))["datasets"]
    assert data["frames"]["capture"] == frames["capture"].to_list()
    assert len(data["series"]["time"]) == 60


def test_call_without_frame_log_has_the_link_charts(call: tuple[Path, Path]) -> None:
    page = render_html(load_call(call[0]), None)
    assert payload(page)["distributions"] == {}
    assert payload(page)["timeline"] != {}
    assert "No frame log" in page


@pytest.mark.parametrize("dropped", [["ssim", "psnr_db"], ["displayed_at", "ssim"], ["budget"], ["video_delay"]])
def test_empty_columns_have_no_charts(call: tuple[Path, Path], dropped: list[str]) -> None:
    frames = load_frames(call[1]).with_columns(polars.lit(None, dtype=polars.Float64).alias(name) for name in dropped)
    report = load_call(call[0])
    assert render_html(report, frames)
    assert render_png(report, frames).startswith(b"\x89PNG")


def test_empty_call_has_a_page() -> None:
    page = render_html(NOTHING, None)
    assert payload(page)["timeline"] == {}
    assert "Simulated call" in page


def test_call_without_series_has_the_frame_charts(call: tuple[Path, Path]) -> None:
    frames = load_frames(call[1])
    assert len(payload(render_html(NOTHING, frames))["timeline"]["vconcat"]) == 6
    assert render_png(NOTHING, frames).startswith(b"\x89PNG")


def test_an_empty_frame_log_has_a_page(call: tuple[Path, Path]) -> None:
    empty = load_frames(call[1]).clear()
    assert payload(render_html(NOTHING, empty))["timeline"] == {}
    assert payload(render_html(load_call(call[0]), empty))["distributions"] == {}


def test_texts_of_the_call_are_escaped(call: tuple[Path, Path]) -> None:
    evil = "</script><script>alert(1)</script>"
    document = json.loads(call[0].read_text())
    document["config"]["trace"] = evil
    document["counters"] = {evil: {evil: 1}}
    call[0].write_text(json.dumps(document))
    frames = load_frames(call[1]).with_columns(polars.lit(evil).alias("outcome"))
    assert "<script>alert" not in render_html(load_call(call[0]), frames)


def test_equal_calls_give_equal_pages(call: tuple[Path, Path]) -> None:
    report, frames = load_call(call[0]), load_frames(call[1])
    assert render_html(report, frames) == render_html(report, frames)


def test_long_series_is_averaged_with_equal_total() -> None:
    series = Series(capacity_bps=[float(1_000_000 * (index % 10)) for index in range(6000)])
    table = charts.datasets(CallReport(lockstep="", kind="call", series=series), None)["series"]
    assert len(table) == charts.MAX_BINS
    assert table["capacity"].to_list() == [4.5] * charts.MAX_BINS
    assert table["end"].item(-1) == 600.0


def test_title_describes_the_call(call: tuple[Path, Path]) -> None:
    report = load_call(call[0])
    assert summary.title(report) == "Live call of 6 s over a generated cellular trace (mean=4mbps,seed=1)"
    assert "20 ms of propagation delay each way, a queue of 256 packets" in summary.description(report)
    in_bytes = msgspec.structs.replace(report, config=report.config | {"queue_packets": None, "queue_bytes": 60_000})
    assert "each way, a queue of 60\u202f000 bytes" in summary.description(in_bytes)


def test_the_command_writes_page_and_picture(
    call: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, picture = tmp_path / "new" / "report.html", tmp_path / "report.png"
    arguments = [str(call[0]), "--frames", str(call[1]), "--output", str(page), "--png", str(picture)]
    assert main(arguments) == 0
    assert page.read_text().startswith("<!doctype html>")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert page.as_uri() in capsys.readouterr().out


def test_every_chart_is_a_figure_in_each_format(call: tuple[Path, Path], tmp_path: Path) -> None:
    page, folder = tmp_path / "report.html", tmp_path / "figures"
    arguments = [str(call[0]), "--frames", str(call[1]), "--output", str(page), "--figures", str(folder)]
    assert main(arguments) == 0
    drawn = payload(page.read_text())
    panels = [*drawn["timeline"]["vconcat"][1:], *drawn["distributions"]["hconcat"]]  # the first selects a time
    names = {path.stem for path in folder.iterdir()}
    assert len(names) == len(panels)
    assert {path.name for path in folder.iterdir()} == {f"{name}{kind}" for name in names for kind in FORMATS}
    frames = polars.read_csv(folder / "video-delay.csv")
    assert frames["capture"].to_list() == load_frames(call[1])["capture"].to_list()
    axis = "video delay, ms"
    assert axis in (folder / "video-delay.svg").read_text()
    assert (folder / "video-delay.pdf").read_bytes().startswith(b"%PDF")


def test_figures_of_a_call_without_frames_are_those_of_the_link(call: tuple[Path, Path], tmp_path: Path) -> None:
    arguments = [str(call[0]), "--output", str(tmp_path / "report.html"), "--figures", str(tmp_path / "figures")]
    assert main(arguments) == 0
    assert {path.stem for path in (tmp_path / "figures").iterdir()} == {"link", "queueing-delay"}


def test_command_reports_errors_in_one_line(
    call: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = str(tmp_path / "call.json" / "report.html")
    for arguments in ([str(tmp_path / "none.json")], [str(call[1])], [str(call[0]), "--output", nowhere]):
        assert main(arguments) == 1
        error = capsys.readouterr().err
        assert error.startswith("lockstep-report: ")
        assert error.count("\n") == 1


def test_escape_sequences_of_a_file_name_are_not_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "a\x1b[31m.json")]) == 1
    error = capsys.readouterr().err
    assert "\x1b" not in error
    assert r"a\x1b[31m.json" in error
    with pytest.raises(SystemExit):
        main(["a.json", "--\x1b[31m"])
    error = capsys.readouterr().err
    assert "\x1b" not in error
    assert r"--\x1b[31m" in error


def test_wait_for_the_writer_of_a_fifo_is_announced(call: tuple[Path, Path], tmp_path: Path) -> None:
    fifo = tmp_path / "call.json"
    content = call[0].read_bytes()
    call[0].unlink(missing_ok=True)
    os.mkfifo(fifo)
    words = [sys.executable, "-m", "lockstep.report", str(fifo), "--output", str(tmp_path / "report.html")]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as waiting:  # noqa: S603
        assert waiting.stderr is not None
        assert waiting.stderr.readline().decode() == f"waiting for a writer of {fifo}: it is a FIFO\n"
        fifo.write_bytes(content)
        assert waiting.wait() == 0
    assert (tmp_path / "report.html").exists()


def test_endless_files_are_refused_with_their_limit(
    call: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document, log = tmp_path / "endless.json", tmp_path / "endless.csv"
    for path in (document, log):
        with path.open("wb") as file:
            file.truncate(1 << 40)
    for arguments, path in (([document], document), ([call[0], "--frames", log], log)):
        assert main([str(argument) for argument in arguments]) == 1
        assert f"{path}: it has more than 536870912 bytes" in capsys.readouterr().err


def test_extension_and_package_have_equal_versions() -> None:
    assert __version__ == version()


def test_shares_of_limits_add_up_to_one(call: tuple[Path, Path]) -> None:
    limits = charts.datasets(load_call(call[0]), load_frames(call[1]))["limits"]
    assert set(limits["limit"]) == {"link estimate", "deadline: frames in flight"}
    ends = limits.group_by("time").agg(polars.col("low").min(), polars.col("high").max(), polars.col("share").sum())
    assert len(ends) <= charts.LIMIT_BINS
    assert ends["low"].max() == 0.0
    assert ends["high"].min() == pytest.approx(1.0, abs=1e-3)
    assert ends["share"].max() == pytest.approx(1.0)


def test_page_shows_the_limits_of_the_call(call: tuple[Path, Path]) -> None:
    report = load_call(call[0])
    headline = next(line for line in summary.headlines(report) if line.label == "Held back by")
    assert headline.note.startswith("link estimate; ")
    assert "What held this call back" in render_html(report, load_frames(call[1]))


def test_log_without_limits_has_no_chart_of_limits(call: tuple[Path, Path]) -> None:
    frames = load_frames(call[1]).with_columns(polars.lit(None, polars.String).alias("limited_by"))
    data = charts.datasets(NOTHING, frames)
    assert len(data["limits"]) == 0
    assert "What held this call back" not in charts.timeline(data).to_json()
