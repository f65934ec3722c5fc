"""The testbed: rules of the ruler, arguments of programs and links, statistics and the report."""

import json
import math
import random
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

import lockstep
from lockstep.testbed import (
    barcodes,
    chromium,
    clips,
    decoding,
    experiments,
    link,
    machine,
    measuring,
    own,
    programs,
    report,
    ruler,
    session_log,
    two_ends,
    y4m,
)
from lockstep.testbed.__main__ import main
from lockstep.testbed.decoding import EncodedFrame
from lockstep.testbed.ruler import Measured, Schedule, Sight

RATE = 30.0
STEADY = Schedule(RATE, (0,), (100.0,))


def waited_by_definition(number: int, shown: list[Sight], end: float) -> float:
    """The paper's definition: from capture until this frame or a later one is displayed."""
    times = [sight.at for sight in shown if sight.number >= number]
    return min(times, default=end) - STEADY.at(number)


def random_shows(draw: random.Random) -> list[Sight]:
    """Displayed pictures with losses, delays, reordering and duplicates."""
    shown = []
    for number in range(60):
        if draw.random() < 0.6:
            shown.append(Sight(number, STEADY.at(number) + draw.expovariate(5.0)))
            if draw.random() < 0.2:
                shown.append(Sight(number, shown[-1].at + draw.random()))
    draw.shuffle(shown)
    return shown


@pytest.mark.parametrize("seed", range(40))
def test_video_delay_ends_with_this_or_a_later_frame(seed: int) -> None:
    shown = random_shows(random.Random(seed))  # noqa: S311
    found = ruler.measure(STEADY, shown, 0, 63, 110.0)
    assert [frame.number for frame in found] == list(range(64))
    for frame in found:
        assert frame.waited == pytest.approx(waited_by_definition(frame.number, shown, 110.0))
        assert frame.open == all(sight.number < frame.number for sight in shown)
        own = [sight.at for sight in shown if sight.number == frame.number]
        assert frame.shown_at == (min(own) if own else None)
    # A later frame is captured later, and displayed no earlier than the frames that it replaces.
    moments = [frame.captured_at + frame.waited for frame in found]
    assert moments == sorted(moments)


def test_pictures_displayed_after_the_reading_do_not_count() -> None:
    late = [ruler.Sight(7, 104.0)]
    assert ruler.measure(STEADY, late, 7, 7, 103.0) == ruler.measure(STEADY, [], 7, 7, 103.0)


def test_delay_without_a_later_frame_ends_with_the_reading() -> None:
    (frame,) = ruler.measure(STEADY, [], 7, 7, 103.0)
    assert frame == Measured(7, STEADY.at(7), None, 103.0 - STEADY.at(7), True)


@pytest.mark.parametrize("seed", range(20))
def test_schedule_follows_a_camera_that_falls_behind(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311
    slips = sorted(draw.sample(range(50, 250), 2))
    previews, truth = [], []
    for number in range(300):
        slip = 0.040 * sum(number >= at for at in slips)
        truth.append(5.0 + slip + number / RATE)
        if draw.random() < 0.95:
            late = 0.0 if draw.random() < 0.3 else draw.expovariate(200.0)
            previews.append(Sight(number, truth[-1] + late))
    schedule, lateness = ruler.fit_schedule(previews, RATE)
    assert all(value >= -1e-9 for value in lateness)
    errors = [abs(schedule.at(number) - truth[number]) for number in range(260)]
    assert max(errors) < 0.041
    assert ruler.quantile(errors, 0.9) < 0.002
    assert schedule.slipped(0, 259) == pytest.approx(0.080, abs=0.005)


def test_numbers_continue_when_the_clip_repeats() -> None:
    truth = [Sight(number, 10.0 + number / RATE + 0.2) for number in range(0, 700, 3)]
    seen = [Sight(sight.number % 200, sight.at) for sight in truth]
    assert ruler.unrolled(seen, 200, RATE) == truth


def test_quantiles_match_numpy() -> None:
    draw = random.Random(3)  # noqa: S311
    values = [draw.random() for _ in range(101)]
    for share in (0.0, 0.25, 0.5, 0.95, 1.0):
        assert ruler.quantile(values, share) == pytest.approx(float(np.quantile(values, share)))
    assert math.isnan(ruler.quantile([], 0.5))


def test_statistics_cover_captured_and_displayed_frames() -> None:
    frames = polars.DataFrame(
        {
            "number": [0, 1, 2, 3],
            "captured_at": [0.0, 1.0, 2.0, 3.0],
            "shown_at": [0.1, None, 2.3, None],
            "waited": [0.1, 1.3, 0.3, 5.0],
            "open": [False, False, False, True],
            "ssim": [0.9, None, 0.99, None],
            "text_ssim": [0.9, None, None, None],
        }
    )
    found = measuring.statistics(frames, 4.0)
    assert found["captured"] == 4
    assert found["shown"] == 2
    assert found["shown_per_second"] == 0.5
    assert found["never_followed"] == 1
    assert found["text_ssim_db"] == pytest.approx(10.0)
    assert found["delay_p50_ms"] == pytest.approx(800.0)
    assert found["shown_delay_p50_ms"] == pytest.approx(200.0)
    assert found["ssim_db"] == pytest.approx(-10 * math.log10(1 - 0.945))


def test_frames_are_decoded_in_order_without_duplicates() -> None:
    near_wrap = 2**32 - 3000
    frames = [EncodedFrame((near_wrap + 3000 * index) % 2**32, index == 1, bytes([index])) for index in range(6)]
    arrived = [frames[index] for index in (0, 2, 1, 2, 3, 5, 4, 4)]
    assert decoding.in_order(arrived) == frames[1:]
    assert decoding.in_order([]) == []


def test_program_name_includes_options() -> None:
    named = programs.parse("chromium:codec=vp9,layers=L1T3")
    assert (named.kind, named.options["codec"], named.options["layers"]) == ("chromium", "vp9", "L1T3")
    assert named.options["cap"] == "default"
    for wrong, word in (
        ("netscape", "unknown program"),
        ("chromium:codek=vp9", "codek"),
        ("lockstep:controller", "NAME=VALUE"),
    ):
        with pytest.raises(programs.TestbedError, match=word):
            programs.parse(wrong)
    assert chromium.bits_per_second("12mbps") == 12_000_000
    with pytest.raises(programs.TestbedError, match="not a bit rate"):
        chromium.bits_per_second("12")


def test_relay_is_the_only_candidate_of_a_description() -> None:
    lines = [
        "v=0",
        "a=candidate:1 1 udp 2122 192.0.2.2 40000 typ host",
        "a=candidate:2 1 udp 2121 fd00::2 40001 typ host",
        "a=candidate:3 1 tcp 1518 192.0.2.2 9 typ host tcptype active",
        "a=mid:0",
    ]
    sdp = "\r\n".join(lines) + "\r\n"
    asked = []

    def through(address: str) -> str:
        asked.append(address)
        return "192.0.2.2:5000"

    written = chromium.with_candidate(sdp, through)
    assert asked == ["192.0.2.2:40000"]
    assert written == "v=0\r\na=candidate:1 1 udp 2122 192.0.2.2 5000 typ host\r\na=mid:0\r\n"
    upper = "a=candidate:1 1 UDP 2015363327 192.0.2.2 52467 typ host"
    assert two_ends.with_unreachable_candidates(upper) == "a=candidate:1 1 UDP 2015363327 192.0.2.2 9 typ host"
    assert chromium.without_candidates(sdp) == "v=0\r\na=mid:0\r\n"


def test_dropped_packets_have_no_departure_time(tmp_path: Path) -> None:
    log = tmp_path / "packets.csv"
    log.write_text(
        "direction,bytes,in_s,out_s,fate,queueing_ms,late_ms,marked\n"
        "forward,1000,1000.5,1000.6,delivered,10,0.1,0\n"
        "forward,1000,1000.6,1000.6,queue,,,\n"
        "reverse,100,1001.2,1001.3,delivered,0,0.1,0\n"
    )
    packets = link.read_packets(log, 1000.0)
    assert packets["out_at"].to_list() == pytest.approx([0.6, None, 1.3])
    assert link.dropped(packets) == 0.5
    assert link.rates(packets, "forward", 0.0, 2.0, [0.0, 1.0]) == [8000.0, 0.0]
    assert link.rates(packets, "reverse", 0.0, 2.0, [0.0, 1.0]) == [0.0, 800.0]


def test_run_on_a_slow_machine_has_a_reason() -> None:
    fine: dict[str, Any] = {
        "lateness_p99_ms": 0.8,
        "preview_late_p99": 0.004,
        "preview_missed": 0.0,
        "frame_seconds": 1 / RATE,
        "waited": 0.02,
        "limited": [],
    }
    assert machine.bottlenecks(**fine) == []
    for change, word in (
        ({"lateness_p99_ms": 9.0}, "link itself"),
        ({"preview_late_p99": 0.030}, "late by 30 ms"),
        ({"preview_missed": 0.1}, "10.0 %"),
        ({"waited": 0.3}, "10 ms per frame"),
        ({"limited": ["bandwidth", "cpu"]}, "limited by the processor"),
    ):
        (message,) = machine.bottlenecks(**{**fine, **change})
        assert word in message


def write_y4m(path: Path, pictures: list[bytes], header: str) -> None:
    path.write_bytes(header.encode() + b"".join(b"FRAME\n" + picture for picture in pictures))


def test_clips_are_read_by_number_and_other_formats_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "clip.y4m"
    pictures = [bytes([value]) * 24 for value in (10, 20, 30)]
    write_y4m(path, pictures, "YUV4MPEG2 W4 H4 F30:1 Ip C420jpeg\n")
    clip = y4m.open_clip(path)
    assert (clip.width, clip.height, clip.rate, clip.frames) == (4, 4, 30.0, 3)
    reader = y4m.ClipReader(clip)
    assert reader.luma(4).tolist() == [[20] * 4] * 4
    for header in (
        "YUV4MPEG2 W4 F30:1\n",
        "RIFF W4 H4\n",
        "YUV4MPEG2 W4 H4 F30:1 C444\n",
        "YUV4MPEG2 W-1 H4 F30:1\n",
        "\n",
    ):
        write_y4m(path, pictures, header)
        with pytest.raises(programs.TestbedError):
            y4m.open_clip(path)


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], lockstep.Simulated]:
    """A modelled call of 30 s at a fixed rate over the first link of an experiment, without recordings."""
    monkeypatch.setenv("LOCKSTEP_SHARED", str(tmp_path))

    def run(name: str) -> lockstep.Simulated:
        link, _ = experiments.resolve(experiments.EXPERIMENTS[name].cases[0])
        return lockstep.simulate(link.trace, controller="fixed:200kbps", modelled=True, seconds=30.0)

    return run


def test_intermittent_link_fails_for_0_2_s_every_5_s(generated: Callable[[str], lockstep.Simulated]) -> None:
    call = generated("intermittent")
    assert set(call.series["capacity_bps"]) == {12e6}
    # On average 0.2 / 5.2 of the time.
    assert call.scores["packet_loss"] == pytest.approx(0.2 / 5.2, rel=0.3)


def test_ramp_reaches_zero_and_recovers_within_30_s(generated: Callable[[str], lockstep.Simulated]) -> None:
    capacity = generated("ramp").series["capacity_bps"]
    seconds = [capacity[10 * second : 10 * (second + 1)].mean() / 1e6 for second in range(30)]
    assert seconds[0] == pytest.approx(24.0, rel=0.01)
    assert seconds[22] == 0.0
    assert seconds[:22] == sorted(seconds[:22], reverse=True)
    assert seconds[22:] == sorted(seconds[22:])
    assert seconds[29] == pytest.approx(9.0, rel=0.01)


def test_wifi_path_is_poisson_at_570_kbps(generated: Callable[[str], lockstep.Simulated]) -> None:
    capacity = generated("wifi").series["capacity_bps"]
    assert capacity.mean() == pytest.approx(570e3, rel=0.1)
    # A Poisson process with 4.75 opportunities in a tenth of a second.
    assert capacity.std() / capacity.mean() == pytest.approx(4.75**-0.5, rel=0.2)


def test_every_experiment_has_a_link_with_and_without_recordings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LOCKSTEP_SHARED", str(tmp_path))
    numbers = [experiment.number for experiment in experiments.EXPERIMENTS.values()]
    assert numbers == list(range(1, 12))
    for experiment in experiments.EXPERIMENTS.values():
        for program in experiment.programs:
            programs.parse(program)
        for case in experiment.cases:
            specification, source = experiments.resolve(case)
            assert specification.trace == case.generated
            assert source.startswith("generated")
    folder = tmp_path / "traces" / "mahimahi"
    folder.mkdir(parents=True)
    (folder / "Verizon-LTE-short.up").write_text("1\n")
    specification, source = experiments.resolve(experiments.EXPERIMENTS["verizon"].cases[0])
    assert specification.trace == str(folder / "Verizon-LTE-short.up")
    assert specification.reverse is None
    assert "recording Verizon-LTE-short" in source


def run_row(program: str, repeat: int, **changes: object) -> dict[str, object]:
    row: dict[str, object] = {
        "case": "Verizon LTE", "program": program, "repeat": repeat, "seconds": 20.0, "size": "640x360", "link": "tun",
        "counted": True, "reasons": "", "failed": "", "delay_p50_ms": 50.0, "delay_p95_ms": 100.0 + repeat,
        "shown_delay_p50_ms": 50.0, "shown_delay_p95_ms": 99.0, "ssim_db": 15.0, "shown_per_second": 29.0, "freezes": 1,
        "forward_kbps": 900.0, "load_sender": 0.4, "load_receiver": 0.2, "lateness_p99_ms": 0.5, "identical": 20,
        "different": 0, "preview_late_p50_ms": 0.2, "preview_late_p99_ms": 3.0, "clock_error_ms": 0.1, "read_p99_ms":
        0.3,
    }  # fmt: skip
    return {**row, **changes}


@pytest.mark.slow
def test_report_has_results_uncounted_runs_and_paper_figures(tmp_path: Path) -> None:
    rows = [run_row(program, repeat) for program in ("lockstep", "chromium") for repeat in (1, 2, 3)]
    rows.append(run_row("chromium", 4, counted=False, reasons="the link itself was late by 9.0 ms (p99)"))
    rows.append(run_row("lockstep", 1, case=experiments.SELF_TEST.name))
    polars.DataFrame(rows).write_parquet(tmp_path / report.RUNS)
    report.describe(tmp_path, "verizon", experiments.EXPERIMENTS["verizon"], {"Verizon LTE": "a recording"})
    for row in rows:
        place = tmp_path / "runs" / report.run_name(row)
        place.mkdir(parents=True, exist_ok=True)
        count = 60
        polars.DataFrame(
            {
                "number": range(count),
                "captured_at": [index / RATE for index in range(count)],
                "shown_at": [index / RATE + 0.1 for index in range(count)],
                "waited": [0.1 + index / 1000 for index in range(count)],
                "open": [False] * count,
                "ssim": [0.95] * count,
            }
        ).write_parquet(place / "frames.parquet")
        polars.DataFrame({"at": [0.0, 0.5], "forward_bps": [1e6, 2e6], "reverse_bps": [1e4, 1e4]}).write_parquet(
            place / "series.parquet"
        )
        moment = {"at": 1.0, "shown": None, "original": "data:image/jpeg;base64,AA=="}
        (place / "details.json").write_text(json.dumps({"moments": [moment]}))
    page = report.write(tmp_path, tmp_path / "figures").read_text()
    assert (tmp_path / "figures" / "scatter.pdf").read_bytes().startswith(b"%PDF")
    for text in (
        "Chromium, VP8",
        "the link itself was late by 9.0 ms (p99)",
        "1,040",
        "a call without a link takes",
        "120 of 120",
    ):
        assert text in page
    for chart in ("scatter", "time", "distributions"):
        assert f'id="{chart}"' in page
    assert 'src="http' not in page


def test_report_on_a_folder_without_runs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 1
    assert "no runs in it" in capsys.readouterr().err
    assert main(["measure"]) == 2
    assert main(["run", "verizon", "--repeats", "0", "--program", "lockstep"]) == 1


def test_runs_have_separate_folders() -> None:
    cells = [
        {"case": case, "program": program, "repeat": repeat}
        for case in ("a", "b c")
        for program in ("chromium", "chromium:codec=vp9")
        for repeat in (1, 2)
    ]
    assert len({report.run_name(cell) for cell in cells}) == len(cells)


def test_size_of_a_vp8_key_frame_is_read() -> None:
    data = b"\x00" * 3 + b"\x9d\x01\x2a" + struct.pack("<HH", 640 | 0x4000, 360) + b"\x00"
    assert decoding._vp8_size(data) == (640, 360)
    assert decoding._vp8_size(b"\x00") == (0, 0)


def test_barcodes_are_read_from_cut_regions() -> None:
    width, height = 640, 360
    blank = np.full((height, width), 128, np.uint8)
    assert barcodes.read(blank) is None
    cuts = [
        ((x, y, across, down), np.zeros((down, across + 8), np.uint8))
        for x, y, across, down in barcodes.regions(width, height)
    ]
    assert barcodes.read_cut(width, height, cuts) is None


def run_data(own: programs.OwnSession | None, *, logged: bool = True) -> session_log.RunData:
    """A run of 4 s from 100.25 on: 30 pictures per second, each displayed after 100 ms, none between 1 and 2 s."""
    captured = [index / RATE for index in range(120)]
    frames = polars.DataFrame(
        {
            "captured_at": captured,
            "shown_at": [None if 1.0 <= at < 2.0 else at + 0.1 for at in captured],
        }
    )
    packets = polars.DataFrame(
        {
            "direction": ["forward", "forward", "forward", "reverse"],
            "in_at": [100.3, 101.3, 101.4, 101.5],
            "out_at": [100.4, None, 102.4, 101.6],
            "bytes": [1028, 528, 128, 5000],
            "fate": ["delivered", "queue", "delivered", "delivered"],
        }
    )
    clip = programs.Clip(Path("clip.y4m"), 640, 360, RATE, 900)
    linked = link.LinkOutcome(packets if logged else None)
    return session_log.RunData(clip, None, linked, frames, 100.25, 4.0, "a program 1.0", own)


def test_session_log_has_traffic_and_pictures_per_second() -> None:
    origin, table = session_log.rows(run_data(None))
    assert origin == 100.25
    assert table["frames_captured"].to_list() == [30, 30, 30, 30]
    assert table["frames_shown"].to_list() == [27, 3, 27, 30]
    assert table["delay_us"].to_list() == [100_000] * 4
    # The freeze counts in the second in which it ends.
    assert table["stalls"].to_list() == [0, 0, 1, 0]
    assert table["stall_ms"][2] == pytest.approx(1000 + 1000 / RATE, abs=1)
    assert table["sent_bps"].to_list() == [8000, 8 * (500 + 100), 0, 0]
    assert table["received_bps"].to_list() == [8000, 0, 800, 0]
    assert table["packets_lost"].to_list() == [0, 1, 0, 0]
    assert "packets_lost" not in session_log.rows(run_data(None, logged=False))[1].columns


@pytest.mark.parametrize("logged", [True, False])
def test_own_statistics_are_in_the_counted_seconds(logged: bool) -> None:
    seconds = polars.DataFrame({"rtt_us": [1, 2, 3, 4], "packets_lost": [7, 7, 7, 7]})
    origin, table = session_log.rows(run_data(programs.OwnSession(99.5, seconds, "gcc", "vp8"), logged=logged))
    # The seconds 99.5 and 100.5 begin before and in the measured time; 104.5 is not complete.
    assert origin == 100.5
    assert table["rtt_us"].to_list() == [2, 3, 4]
    assert table["packets_lost"].to_list() == ([1, 0, 0] if logged else [7, 7, 7])
    late = session_log.rows(run_data(programs.OwnSession(102.0, seconds.head(1))))
    assert (late[0], late[1]["rtt_us"].to_list()) == (102.0, [1, None])


def test_counters_are_interpolated_between_samples() -> None:
    samples: list[dict[str, float | None]] = [
        {"at": 10.0, "bits": None, "rate": None},
        {"at": 11.25, "bits": 2500.0, "rate": 5.0},
        {"at": 12.5, "bits": 5000.0, "rate": 6.0},
    ]
    found = session_log.sampled(samples, {"sent_bps": "bits"}, {"transport_bps": "rate"})
    assert found is not None
    assert found.at == 10.0
    assert found.seconds["sent_bps"].to_list() == pytest.approx([2000.0, 2000.0])
    assert found.seconds["transport_bps"].to_list() == [None, 5.0]
    assert session_log.sampled(samples[:1], {}, {}) is None


def test_run_writes_a_session_that_reports_can_read(tmp_path: Path) -> None:
    log = session_log.Log(tmp_path, ("verizon", "lockstep", "1"), {"access": "4g", "program": "lockstep"})
    session_log.write(log, run_data(None), counted=False)
    row = polars.read_parquet(tmp_path / "sessions" / "*.parquet").row(0, named=True)
    assert (row["kind"], row["access"], row["seconds"], row["stalls"]) == ("testbed", "4g", 4, 1)
    assert json.loads(row["labels"]) == {"counted": "no", "program": "lockstep"}
    pytest.importorskip("duckdb")
    from lockstep.sessions import sql  # noqa: PLC0415 - requires DuckDB

    assert sql.main([str(tmp_path), "SELECT sum(packets_lost) AS lost FROM seconds", "--format", "csv"]) == 0


def test_wrong_arguments_are_reported_before_any_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "out"
    for words, message in (
        (["compare", "lockstep:controller=nosuch", "lockstep"], "unknown controller `nosuch`"),
        (["compare", "lockstep:controller=hindsight", "lockstep"], "requires the trace of the link"),
        (["compare", "lockstep:grace=long", "lockstep"], "grace"),
        (["compare", "lockstep:content=page", "lockstep"], "expected camera or screen, got page"),
        (["compare", "lockstep", "lockstep", "--trace", "nosuch.up"], "nosuch.up"),
        (["compare", "lockstep", "lockstep", "--trace", "constant:1mbps", "--loss", "3"], "out of range"),
        (["compare", "lockstep", "lockstep", "--loss", "1%"], "add --trace"),
        (
            ["compare", "lockstep", "lockstep", "--trace", "constant:1mbps", "--experiment", "wifi"],
            "exclude each other",
        ),
        (["run", "verizon", "--program", "lockstep", "--clip", str(tmp_path / "nosuch.mp4")], "nosuch.mp4"),
        (["run", "verizon", "--program", "lockstep", "--size", "16x16"], "carries no barcodes"),
        (["run", "verizon", "--program", "lockstep", "--rate", "nan"], "--rate"),
        (["run", "verizon", "--program", "lockstep", "--seconds", "3600", "--size", "9000x9000"], "GB are free"),
    ):
        assert main([*words, "--link", "relay", "--output", str(folder)]) == 1, words
        assert message in capsys.readouterr().err, words
    assert not folder.exists()
    assert list(tmp_path.glob("clips/*")) == []


def test_full_disk_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "shown.i420").symlink_to("/dev/full")
    write_y4m(tmp_path / "shown.y4m", [bytes(96 * 64)] * 40, "YUV4MPEG2 W64 H64 F30:1 Ip C420jpeg\n")
    program = own.Lockstep(programs.KINDS["lockstep"].options)
    clip = programs.Clip(tmp_path / "clip.y4m", 64, 64, RATE, 40)
    program._setting = programs.Setting(clip, programs.Side(), programs.Side(), tmp_path)
    program._read(tmp_path / "shown.y4m")
    with pytest.raises(programs.TestbedError, match="No space left on device"):
        program.poll()


def test_signal_ends_a_pause_and_a_second_one_the_process() -> None:
    script = (
        "import signal, os, threading\n"
        "from lockstep.testbed.processes import interruptible, pause\n"
        "with interruptible() as came:\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    try:\n"
        "        pause(600.0)\n"
        "    except KeyboardInterrupt:\n"
        "        print(came[0].name, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    pause(600.0)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)  # noqa: S603
    assert (ended.stdout, ended.returncode) == ("SIGTERM\n", -signal.SIGTERM)


def test_videos_of_equal_names_give_different_clips(tmp_path: Path) -> None:
    header = "YUV4MPEG2 W320 H180 F30:1 Ip C420jpeg\n"
    made = []
    for folder, value in (("a", 60), ("b", 200)):
        (tmp_path / folder).mkdir()
        write_y4m(tmp_path / folder / "clip.y4m", [bytes([value]) * (320 * 180 * 3 // 2)] * 3, header)
        made.append(clips.barcoded(str(tmp_path / folder / "clip.y4m"), (322, 182), RATE, 2.0, tmp_path / "clips"))
    assert made[0].path != made[1].path
    lumas = [y4m.ClipReader(clip).luma(0)[100, 160] for clip in made]
    assert lumas == [60, 200]
    assert (made[0].width, made[0].height) == (322, 182)
    # Three pictures are too few, so they repeat with continued numbers.
    assert made[0].frames == round((2.0 + clips.SPARE_SECONDS) * RATE)
    reader = y4m.ClipReader(made[0])
    assert [barcodes.read(reader.luma(number)) for number in (0, 2, 3, 400)] == [0, 2, 3, 400]
    assert sorted((tmp_path / "clips").iterdir()) == sorted(clip.path for clip in made)
