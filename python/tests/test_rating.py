import csv
import http.client
import itertools
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lockstep.rating.__main__ import main
from lockstep.rating.server import MAX_BODY_BYTES, RatingServer
from lockstep.rating.trials import Ratings, load_clip, plan

EBML = b"\x1a\x45\xdf\xa3"


@pytest.fixture
def clips(tmp_path: Path) -> list[Path]:
    files = [tmp_path / name for name in ("a.webm", "b.mkv", "c.mp4")]
    for number, file in enumerate(files):
        magic = b"\0\0\0\x18ftyp" if file.suffix == ".mp4" else EBML
        file.write_bytes(magic + bytes([number]) * 1_000)
    return files


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def ratings(
    clips: list[Path], output: Path, method: str = "pair", repeats: int = 1, participant: str = "P1"
) -> Ratings:
    trials = plan(method, [load_clip(path) for path in clips], repeats, 1, participant)
    return Ratings(output, participant, method, trials)


@contextmanager
def serving(given: Ratings, method: str = "pair") -> Iterator[RatingServer]:
    with RatingServer(0, given, method) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(
    server: RatingServer, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    return answer.status, dict(answer.getheaders()), answer.read()


def rate(server: RatingServer, trial: object, rating: object, seconds: object = 1.5, **headers: str) -> int:
    body = json.dumps({"trial": trial, "rating": rating, "seconds": seconds}).encode()
    return ask(server, "POST", "/rating", body, **headers)[0]


def test_every_pair_is_shown_once_a_repeat_and_in_both_orders(clips: list[Path]) -> None:
    loaded = [load_clip(path) for path in clips]
    trials = plan("pair", loaded, 2, 1, "P1")
    assert {trial.clips for trial in trials} == set(itertools.permutations(loaded, 2))
    for repeat in (1, 2):
        pairs = [frozenset(trial.clips) for trial in trials if trial.repeat == repeat]
        assert len(pairs) == 3
        assert len(set(pairs)) == 3


def test_order_follows_seed_and_participant(clips: list[Path]) -> None:
    loaded = [load_clip(path) for path in clips]
    orders = {(seed, who): tuple(plan("acr", loaded, 4, seed, who)) for seed in (1, 2) for who in ("P1", "P2")}
    assert len(set(orders.values())) == 4
    assert orders[1, "P1"] == tuple(plan("acr", loaded, 4, 1, "P1"))


def test_clips_that_cannot_be_compared_are_refused(clips: list[Path], tmp_path: Path) -> None:
    loaded = [load_clip(path) for path in clips]
    with pytest.raises(ValueError, match="requires two clips"):
        plan("pair", loaded[:1], 1, 1, "P1")
    with pytest.raises(ValueError, match="same content"):
        plan("acr", [loaded[0], loaded[0]], 1, 1, "P1")
    (tmp_path / "text.webm").write_text("no video")
    for name, reason in (("text.webm", "not webm"), ("absent.webm", "no such file"), ("x.avi", "ends in .webm")):
        with pytest.raises(ValueError, match=reason):
            load_clip(tmp_path / name)


def test_ratings_are_rows_with_files_and_hashes(clips: list[Path], tmp_path: Path) -> None:
    output = tmp_path / "ratings.csv"
    given = ratings(clips[:2], output, repeats=2)
    with serving(given) as server:
        assert json.loads(ask(server, "GET", "/trial")[2]) == {"method": "pair", "trial": 1, "of": 2, "clips": 2}
        assert rate(server, 1, 2) == 200
        assert len(rows(output)) == 1
        assert rate(server, 2, 1, 0.25) == 200
    first, second = rows(output)
    shown = [load_clip(Path(first[name])) for name in ("first", "second")]
    assert [clip.sha256 for clip in shown] == [first["first_sha256"], first["second_sha256"]]
    assert (first["participant"], first["trial"], first["rating"], first["seconds"]) == ("P1", "1", "2", "1.50")
    assert (second["first"], second["second"], second["seconds"]) == (first["second"], first["first"], "0.25")


def test_server_ends_after_the_last_rating(clips: list[Path], tmp_path: Path) -> None:
    with RatingServer(0, ratings(clips[:1], tmp_path / "r.csv", "acr"), "acr") as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        assert rate(server, 1, 5) == 200
        thread.join(5)
        assert not thread.is_alive()


def test_ratings_that_are_invalid_or_repeated_change_nothing(clips: list[Path], tmp_path: Path) -> None:
    output = tmp_path / "ratings.csv"
    with serving(ratings(clips, output)) as server:
        assert rate(server, 2, 1) == 409
        assert rate(server, 1, 3) == 409
        assert rate(server, 1, 1, float("nan")) == 409
        assert rate(server, 1, True) == 400
        assert rate(server, 1, "1") == 400
        assert rate(server, 1, 1, 10**400) == 400
        assert ask(server, "POST", "/rating", b"[" * 1_000)[0] == 400
        assert not output.exists()
        assert rate(server, 1, 1) == 200
        assert rate(server, 1, 1) == 409
    assert len(rows(output)) == 1


def test_clips_are_served_whole_and_in_ranges(clips: list[Path], tmp_path: Path) -> None:
    given = ratings(clips, tmp_path / "r.csv", "acr")
    clip = given.trials[0].clips[0]
    content = clip.path.read_bytes()
    size = len(content)
    with serving(given, "acr") as server:
        status, headers, body = ask(server, "GET", "/clip/1/1")
        assert (status, body, headers["Content-Type"]) == (200, content, clip.media_type)
        for asked, start, stop in (("0-", 0, size), ("5-9", 5, 10), ("-7", size - 7, size), ("5-99999", 5, size)):
            status, headers, body = ask(server, "GET", "/clip/1/1", Range=f"bytes={asked}")
            assert (status, body) == (206, content[start:stop])
            assert headers["Content-Range"] == f"bytes {start}-{stop - 1}/{size}"
        for asked in (f"{size}-", "9-5", "-0"):
            status, headers, _ = ask(server, "GET", "/clip/1/1", Range=f"bytes={asked}")
            assert (status, headers["Content-Range"]) == (416, f"bytes */{size}")
        assert ask(server, "GET", "/clip/1/1", Range="bytes=0-1,5-6")[0] == 200


def test_no_path_leads_to_another_file(clips: list[Path], tmp_path: Path) -> None:
    (tmp_path / "secret.webm").write_bytes(EBML + b"secret")
    with serving(ratings(clips, tmp_path / "r.csv", "acr"), "acr") as server:
        for path in (
            "/clip/0/1",
            "/clip/4/1",
            "/clip/1/2",
            "/clip/1/1/../../secret.webm",
            "/clip/../secret.webm",
            "/../../etc/passwd",
            "/%2e%2e/secret.webm",
            f"/clip/{tmp_path}/secret.webm",
            "/secret.webm",
            "/clip/1/1?x",
        ):
            assert ask(server, "GET", path)[0] == 404, path


def test_names_of_clips_are_hidden_from_the_page(clips: list[Path], tmp_path: Path) -> None:
    with serving(ratings(clips, tmp_path / "r.csv")) as server:
        for path in ("/", "/trial", "/clip/1/1"):
            _, headers, body = ask(server, "GET", path)
            seen = body.decode(errors="replace") + json.dumps(headers)
            assert not any(clip.name in seen for clip in clips)


def test_requests_of_other_sites_and_large_bodies_are_refused(clips: list[Path], tmp_path: Path) -> None:
    output = tmp_path / "r.csv"
    with serving(ratings(clips, output)) as server:
        own = f"http://localhost:{server.server_port}"
        assert ask(server, "GET", "/", Host="evil.example")[0] == 421
        assert rate(server, 1, 1, Host="evil.example") == 421
        assert rate(server, 1, 1, Origin="http://evil.example") == 403
        assert ask(server, "POST", "/trial", b"{}")[0] == 404
        assert ask(server, "POST", "/rating", b" " * (MAX_BODY_BYTES + 1))[0] == 413
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=5) as raw:
            raw.sendall(f"POST /rating HTTP/1.1\r\nHost: localhost:{server.server_port}\r\n\r\n".encode())
            assert raw.recv(64).startswith(b"HTTP/1.1 411 ")
        assert not output.exists()
        assert rate(server, 1, 1, Origin=own) == 200


def test_study_resumes_and_participants_share_a_file(clips: list[Path], tmp_path: Path) -> None:
    output = tmp_path / "r.csv"
    first = ratings(clips, output)
    first.append(1, 2, 1.0)
    other = ratings(clips, output, participant="P2")
    other.append(1, 1, 1.0)
    resumed = ratings(clips, output)
    assert (resumed.count, other.count) == (1, 1)
    resumed.append(2, 1, 1.0)
    assert [row["participant"] for row in rows(output)] == ["P1", "P2", "P1"]


def test_files_that_do_not_fit_are_refused_unchanged(clips: list[Path], tmp_path: Path) -> None:
    output = tmp_path / "r.csv"
    ratings(clips, output).append(1, 2, 1.0)
    whole = output.read_bytes()
    with pytest.raises(ValueError, match="rated other trials"):
        ratings(clips[:2], output, repeats=3)
    output.write_bytes(whole[:-5])
    with pytest.raises(ValueError, match="last row is incomplete"):
        ratings(clips, output)
    output.write_text("time,rate\n1,2\n")
    with pytest.raises(ValueError, match="not a file of `lockstep rate`"):
        ratings(clips, output)
    assert output.read_text() == "time,rate\n1,2\n"


def test_finished_study_ends_without_a_server(
    clips: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "r.csv"
    ratings(clips[:1], output, "acr").append(1, 4, 1.0)
    words = [str(clips[0]), "--method", "acr", "--participant", "P1", "--output", str(output)]
    assert main(words) == 0
    assert capsys.readouterr().out == f"1 of 1 ratings are in {output}\n"


def test_interrupt_ends_the_command_with_its_count(clips: list[Path], tmp_path: Path) -> None:
    output = tmp_path / "r.csv"
    words = [*map(str, clips), "--participant", "P1", "--output", str(output)]
    command = [sys.executable, "-m", "lockstep.rating", *words]
    with subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert "http://127.0.0.1:" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (130, "")
    assert out == f"0 of 3 ratings are in {output}; run the same command again to resume\n"
