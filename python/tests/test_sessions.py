"""Session logs: writing, reading, reports and SQL."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy
import polars
import pytest
from test_simulate import command as built

import lockstep
from lockstep.quantities import percent
from lockstep.sessions import SCHEMA, SessionError, reaction, write_session
from lockstep.sessions.__main__ import main
from lockstep.sessions.database import connect, find
from lockstep.sessions.log import labelled
from lockstep.sessions.measure import ENOUGH, Figures, measure
from lockstep.sessions.reaction import Reaction, drops
from lockstep.sessions.report import published
from lockstep.sessions.sql import select

ROOT = Path(__file__).parents[2]


def command() -> Path:
    program = built()
    if program is None:
        pytest.skip("the lockstep command is not built; run make build")
    return program


def session(number: int, **columns: Any) -> dict[str, Any]:
    return {
        "session": number,
        "kind": "test",
        "seen_from": "both",
        "program": "hand",
        "codec": "conventional",
    } | columns


def seconds(count: int, **columns: Any) -> polars.DataFrame:
    rows = {name: value if isinstance(value, list) else [value] * count for name, value in columns.items()}
    return polars.DataFrame(rows)


def figures(folder: Path) -> Figures:
    logs = find(folder)
    with connect(logs) as database:
        return measure(database, logs)


def small_log(folder: Path) -> None:
    """Three sessions: one continues into the next hour and is poor before, one loses too much, one just does not."""
    late = session(1, place="Ulm", access="wifi", local_start_s=21 * 3600 - 10)
    write_session(folder, late, seconds(20, rtt_us=[400_000] * 10 + [100_000] * 10, packets_sent=100, packets_lost=0))
    lossy = session(2, place="Ulm", access="4g", local_start_s=9 * 3600, codec="functional")
    write_session(folder, lossy, seconds(10, rtt_us=50_000, packets_sent=100, packets_lost=[20] + [0] * 9))
    fair = session(3, place="Bonn", access="4g", local_start_s=9 * 3600)
    write_session(folder, fair, seconds(10, rtt_us=300_000, packets_sent=100, packets_lost=[10] + [0] * 9))


def test_sessions_are_poor_as_a_whole_and_by_hour(tmp_path: Path) -> None:
    small_log(tmp_path)
    found = figures(tmp_path)
    assert (found.sessions, found.seconds, found.all.count) == (3, 40, 3)
    # The first session's mean is 250 ms, although its first part is slow.
    assert [found.all.poor, found.all.slow, found.all.lossy] == pytest.approx([1 / 3, 0.0, 1 / 3])
    shares = {split: {group.name: (group.count, group.poor) for group in found.by[split]} for split in found.by}
    assert shares["place"] == {"Bonn": (1, 0.0), "Ulm": (2, 0.5)}
    assert shares["access"] == {"4g": (2, 0.5), "wifi": (1, 0.0)}
    assert shares["hour"] == {"9": (2, 0.5), "20": (1, 1.0), "21": (1, 0.0)}
    assert shares["codec"] == {"conventional": (2, 0.0), "functional": (1, 1.0)}
    assert found.rtt_ms["wifi"] == [250.0] * 101


def test_hours_of_the_papers_night_are_apart(tmp_path: Path) -> None:
    for number in range(2 * ENOUGH):
        hour, rtt = (7, 100_000) if number % 2 else (8, 400_000 if number % 4 else 100_000)
        row = session(number, local_start_s=hour * 3600)
        write_session(tmp_path, row, seconds(2, rtt_us=rtt, packets_sent=100, packets_lost=0))
    rows = {row.what: row for row in published(figures(tmp_path))}
    night, others = rows["… from 1 to 8 am"], rows["… in other hours"]
    assert (night.paper, night.here) == ("17.5 % (figure 4)", percent(0.0))
    assert (others.paper, others.here) == ("28.5 % (figure 4)", percent(0.5))
    # One hour of 7 and one of 17, with as many windows.
    assert rows["Load in other hours over that from 1 to 8 am"].here == f"{7 / 17:.1f} times"


def test_losses_of_a_two_sided_session_are_the_senders(tmp_path: Path) -> None:
    sender = session(7, seen_from="sender")
    write_session(tmp_path, sender, seconds(5, rtt_us=20_000, packets_sent=100, packets_lost=2))
    receiver = session(7, seen_from="receiver", codec="")
    write_session(tmp_path, receiver, seconds(5, packets_received=90, packets_lost=10))
    alone = session(8, seen_from="receiver", codec="")
    write_session(tmp_path, alone, seconds(5, packets_received=95, packets_lost=5))
    found = figures(tmp_path)
    assert (found.sessions, found.all.count) == (2, 2)
    losses = sorted(values[50] for values in found.loss.values())
    assert losses == [pytest.approx((0.02 + 0.05) / 2)]
    assert found.by["hour"] == []
    with connect(find(tmp_path)) as database:
        rows = select(database, "SELECT seen_from, loss FROM sessions WHERE session = 7 ORDER BY 1").fetchall()
    assert rows == [("receiver", pytest.approx(0.1)), ("sender", pytest.approx(0.02))]


def rates(*parts: tuple[int, int]) -> list[int]:
    return [rate for rate, count in parts for _ in range(count)]


def test_reduction_and_recovery_start_at_the_drop(tmp_path: Path) -> None:
    transport = rates((1_000_000, 10), (400_000, 7), (800_000, 13))
    codec = rates((1_000_000, 12), (300_000, 8), (750_000, 10))
    write_session(
        tmp_path, session(1), seconds(30, transport_bps=transport, codec_bps=codec, packets_sent=1, packets_lost=0)
    )
    # The same session, but it ends before the recovery; and one whose codec never follows.
    short = seconds(15, transport_bps=transport[:15], codec_bps=codec[:15], packets_sent=1, packets_lost=0)
    write_session(tmp_path, session(2), short)
    deaf = seconds(15, transport_bps=transport[:15], codec_bps=1_000_000, packets_sent=1, packets_lost=0)
    write_session(tmp_path, session(3), deaf)
    (found,) = figures(tmp_path).codecs
    assert (found.name, found.seconds, found.drops) == ("conventional", 60, 3)
    assert found.drops_per_minute == pytest.approx(3.0)
    shares = [found.reduction.share, found.recovery.share, found.transport_recovery.share]
    assert shares == [pytest.approx(2 / 3), pytest.approx(1 / 3), pytest.approx(1 / 3)]
    assert (found.reduction.mean, found.transport_recovery.mean) == (2.0, 7.0)
    assert (found.recovery.mean, found.recovery.p95) == (10.0, 10.0)
    assert found.reduction.cdf == [[0.0, 0.0], [2.0, pytest.approx(2 / 3)]]


def test_first_second_of_a_session_is_not_a_drop() -> None:
    session = numpy.repeat(numpy.array([5, 6]), 4)
    transport = numpy.repeat(numpy.array([1_000, 100]), 4)
    assert len(drops(session, transport, transport).rows) == 0
    one = numpy.zeros(8, numpy.int64)
    assert drops(one, transport, transport).rows.tolist() == [4]
    # A decrease over several seconds is one drop; missing values are none.
    assert drops(one, transport, numpy.array([1_000, 500, 200, 100, 100, 100, 100, 100])).rows.tolist() == [1]
    assert len(drops(one, transport, numpy.array([1_000, -1, 200, -1, 100, -1, 0, 100])).rows) == 0


def test_rate_quantiles_are_exact_to_a_bin(tmp_path: Path) -> None:
    codec = [1_000 * rate for rate in range(101)]
    rows = seconds(101, codec_bps=codec, transport_bps=50_000, packets_sent=1, packets_lost=0, codec_updates=2)
    write_session(tmp_path, session(1), rows)
    (found,) = figures(tmp_path).codecs
    assert all(abs(found.codec_bps[share] - 1_000 * share) <= reaction.BIN_BPS for share in range(101))
    assert abs(found.transport_bps[50] - 50_000) <= reaction.BIN_BPS
    assert [found.apart_percent[share] for share in (0, 50, 100)] == [-100.0, pytest.approx(0, abs=2), 100.0]
    assert found.codec_updates_per_minute == pytest.approx(120.0)
    assert found.transport_updates_per_minute is None or found.transport_updates_per_minute == 0.0


@pytest.mark.parametrize("seed", range(5))
def test_results_do_not_depend_on_the_part_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    random = numpy.random.default_rng(seed)
    for number in range(12):
        count = int(random.integers(1, 40))
        transport = random.choice([100_000, 400_000, 1_000_000], count).tolist()
        codec = random.choice([100_000, 400_000, 1_000_000], count).tolist()
        rows = seconds(count, transport_bps=transport, codec_bps=codec, packets_sent=1, packets_lost=0)
        write_session(tmp_path, session(number), rows)
    whole = figures(tmp_path)
    monkeypatch.setattr(reaction, "PART", int(random.integers(20, 60)))
    assert figures(tmp_path) == whole


def test_long_session_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaction, "PART", 10)
    rows = seconds(95, transport_bps=500_000, codec_bps=500_000, packets_sent=1, packets_lost=0)
    write_session(tmp_path, session(1), rows)
    files = find(tmp_path).seconds
    sizes = [len(part[0]) for part in reaction.parts(files, [95], ["session", "codec_bps"])]
    assert sum(sizes) == 95
    assert max(sizes) <= 30
    assert figures(tmp_path).codecs[0].seconds == 95


def test_session_columns_are_sums_or_means_of_seconds(tmp_path: Path) -> None:
    write_session(tmp_path, session(1), seconds(3, rtt_us=[10, None, 30], stalls=[0, 1, 2], sent_bps=1_000))
    with connect(find(tmp_path)) as database:
        query = "SELECT seconds, complete, rtt_ms, stalls, sent_bps, packets_sent, labels FROM sessions"
        assert select(database, query).fetchall() == [(3, True, 0.02, 3, 1_000, None, "{}")]
        assert select(database, "SELECT second, rtt_ms FROM seconds ORDER BY 1").fetchall() == [
            (0, 0.01),
            (1, None),
            (2, 0.03),
        ]


def test_invalid_session_is_refused_before_writing(tmp_path: Path) -> None:
    for row, rows, expected in [
        (session(-1), seconds(1, rtt_us=1), "63 bits"),
        (session(1, colour="red"), seconds(1, rtt_us=1), "unknown column 'colour'"),
        (session(1), seconds(1, taste=1), "unknown column 'taste'"),
        (session(1, kind=""), seconds(1, rtt_us=1), "kind is missing"),
        (session(1, kind="a/b"), seconds(1, rtt_us=1), "not a valid file name"),
        (session(1), seconds(1, rtt_us=1 << 40), "conversion"),
    ]:
        with pytest.raises(SessionError, match=expected):
            write_session(tmp_path, row, rows)
    assert list(tmp_path.rglob("*.parquet")) == []


def test_labels_match_those_of_the_command() -> None:
    known = labelled({"place": "Ulm", "access": "4g", "hour": "21:30", "phone": "x"})
    assert known == {"place": "Ulm", "access": "4g", "local_start_s": 77_400, "labels": '{"phone": "x"}'}
    for wrong in ({"access": "pigeon"}, {"hour": "24"}, {"hour": "9:60"}, {"hour": "noon"}, {"hour": ""}):
        with pytest.raises(SessionError):
            labelled(wrong)


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    status = main([str(word) for word in words])
    expected = capsys.readouterr()
    return status, expected.out, expected.err


def test_report_has_page_table_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_log(tmp_path)
    page, numbers = tmp_path / "out" / "report.html", tmp_path / "report.json"
    figures = tmp_path / "figures"
    status, out, _ = run(capsys, "report", tmp_path, "--output", page, "--json", numbers, "--figures", figures)
    assert status == 0
    assert {"poor.pdf", "network.svg", "poor.csv"} <= {path.name for path in figures.iterdir()}
    assert "wifi" in out
    assert "50\N{NO-BREAK SPACE}%" in out
    assert "WiFi 18 %, 4G 34 %, 3G 54 %" in out
    document = json.loads(numbers.read_text())
    assert document["all"]["poor"] == pytest.approx(1 / 3)
    html = page.read_text()
    assert "Poor sessions" in html
    assert "src=" not in html.partition("<script")[0]
    status, out, err = run(capsys, "report", tmp_path, "--json", "-")
    assert status == 0
    assert json.loads(out) == document
    assert "wifi" in err


def test_escape_sequences_of_logs_are_not_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_log(tmp_path)
    query = "SELECT 'a' || chr(27) || ']0;title' || chr(7) AS name FROM sessions LIMIT 1"
    status, out, _ = run(capsys, "sql", tmp_path, query)
    assert status == 0
    assert r"a\x1b]0;title\x07" in out
    assert "\x1b" not in out


def test_sql_allows_only_one_select_over_the_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_log(tmp_path)
    query = "SELECT access, count(*) AS n FROM sessions GROUP BY 1 ORDER BY 1"
    assert run(capsys, "sql", tmp_path, query, "--format", "csv")[:2] == (0, "access,n\n4g,2\nwifi,1\n")
    status, out, _ = run(capsys, "sql", tmp_path, query, "--format", "json")
    assert [json.loads(line) for line in out.splitlines()] == [{"access": "4g", "n": 2}, {"access": "wifi", "n": 1}]
    status, out, err = run(capsys, "sql", tmp_path, "SELECT second FROM seconds", "--rows", "4")
    assert (status, len(out.splitlines())) == (0, 6)
    assert "printed the first 4 rows" in err
    secret = tmp_path.parent / "secret.csv"
    secret.write_text("a\n1\n")
    for wrong, expected in [
        (f"COPY sessions TO '{tmp_path}/sessions/x.parquet'", "read-only"),
        ("SELECT 1; SELECT 2", "read-only"),
        ("SET memory_limit = '100GB'", "read-only"),
        (f"SELECT * FROM read_csv('{secret}')", "Permission"),  # noqa: S608
        ("SELECT * FROM nothing", "nothing"),
        ("SELEC", "syntax"),
        ("", "read-only"),
    ]:
        status, out, err = run(capsys, "sql", tmp_path, wrong)
        assert (status, out) == (1, "")
        assert expected in err
    assert not (tmp_path / "sessions" / "x.parquet").exists()


def test_unreadable_logs_are_reported_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(folder: Path) -> str:
        status, _, err = run(capsys, "report", folder)
        assert status == 1
        assert len(err.strip().splitlines()) == 1
        return err

    assert "no such folder" in refused(tmp_path / "none")
    assert "no session logs in it" in refused(tmp_path)
    small_log(tmp_path)
    file = next((tmp_path / "seconds").glob("*.parquet"))
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    assert f"{file}: truncated" in refused(tmp_path)
    file.write_bytes(b"")
    assert str(file) in refused(tmp_path)
    polars.read_parquet(next((tmp_path / "sessions").glob("*.parquet"))).write_parquet(file)
    assert "not a session log" in refused(tmp_path)
    polars.DataFrame({"a": [1]}).write_parquet(file, metadata={SCHEMA.metadata_key: "2"})
    assert "of version 2" in refused(tmp_path)
    file.write_bytes(whole)
    status, _, err = run(capsys, "report", tmp_path, "--memory", "much")
    assert (status, "not a size" in err) == (1, True)


def test_damaged_log_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_log(tmp_path)
    random = numpy.random.default_rng(7)
    files = sorted(tmp_path.rglob("*.parquet"))
    refused = 0
    for _ in range(24):
        file = files[random.integers(len(files))]
        whole = file.read_bytes()
        damaged = bytearray(whole)
        damaged[random.integers(len(damaged))] ^= 1 << int(random.integers(8))
        file.write_bytes(damaged)
        query = "SELECT * FROM seconds JOIN sessions USING (session)"
        for words in (("report", tmp_path), ("sql", tmp_path, query)):
            status, _, err = run(capsys, *words)
            # The flipped bit may be part of a value.
            assert status == 0 or f"{file}: " in err, err
            assert len(err.splitlines()) == status
            refused += status
        file.write_bytes(whole)
    assert refused > 4


def test_simulated_call_writes_the_log_of_the_command(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    labels = {"place": "Ulm", "access": "wifi", "hour": "7:05"}
    arguments: dict[str, Any] = {"controller": "gcc", "codec": "conventional", "modelled": True, "seconds": 12.0}
    call = lockstep.simulate("constant:700kbps", **arguments, session_log=here, session_labels=labels)
    words = "--controller gcc --codec conventional --modelled --seconds 12 --trace constant:700kbps"
    expected = [word for name, value in labels.items() for word in ("--session-label", f"{name}={value}")]
    program = [str(command()), "simulate", *words.split(), "--session-log", str(there), *expected]
    subprocess.run(program, check=True, capture_output=True)  # noqa: S603
    columns = [column.name for column in SCHEMA.seconds if column.name != "session"]
    mine, theirs = (polars.read_parquet(folder / "seconds" / "*.parquet", columns=columns) for folder in (here, there))
    assert mine.equals(theirs)
    assert len(mine) == 12
    assert mine["frames_shown"].sum() > 300
    assert mine["capacity_bps"].to_list() == [700_000] * 12
    columns = [
        column.name for column in SCHEMA.sessions if column.name not in ("session", "width", "height", "frame_rate_mhz")
    ]
    mine, theirs = (polars.read_parquet(folder / "sessions" / "*.parquet", columns=columns) for folder in (here, there))
    assert mine.equals(theirs), (mine.to_dicts(), theirs.to_dicts())
    assert lockstep.simulate("constant:700kbps", **arguments) == call
    with pytest.raises(ValueError, match="session_labels"):
        lockstep.simulate("constant:700kbps", **arguments, session_labels=labels)


def test_generated_sessions_repeat_and_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    population = json.loads((ROOT / "crates/lab/src/sessions/population.json").read_text())
    population["length_s"] = {"median": 10, "deviation": 0.2, "least": 5, "most": 20}
    file = tmp_path / "population.json"
    file.write_text(json.dumps(population))

    def generate(folder: Path, count: int) -> str:
        words = ["sessions", "generate", "--population", str(file), "--seed", "3"]
        program = [str(command()), *words, "--count", str(count), "--output", str(folder)]
        return subprocess.run(program, check=True, capture_output=True, text=True).stdout  # noqa: S603

    first, again = tmp_path / "first", tmp_path / "again"
    assert "12 sessions in" in generate(first, 12)
    assert "12 of 12 sessions exist already" in generate(first, 12)
    generate(again, 12)
    files = sorted(path.relative_to(first) for path in first.rglob("*.parquet"))
    assert len(files) == 2
    assert all((first / path).read_bytes() == (again / path).read_bytes() for path in files)
    found = figures(first)
    assert found.sessions == 12
    assert {codec.name for codec in found.codecs} == {"conventional", "functional"}
    assert run(capsys, "report", first)[0] == 0


def test_a_reaction_of_nothing_has_no_times() -> None:
    assert reaction.quantile(Reaction().codec, 0.5) is None
