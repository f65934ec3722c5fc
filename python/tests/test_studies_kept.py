"""Kept results of studies: dependence on files and programs, and interruptions."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars
import pytest

import lockstep
from lockstep.content_hash import content_hash
from lockstep.learn.arguments import parser
from lockstep.learn.judging import MEASURES
from lockstep.studies import bob, concerto
from lockstep.studies.__main__ import main
from lockstep.studies.bob_profiles import PROFILES, generated
from lockstep.study import Study

Ran = list[tuple[str, str]]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Controllers and models of fake calls, whose scores depend on the bytes of their files."""
    ran: Ran = []

    def simulate(trace: Path | str, **options: Any) -> SimpleNamespace:
        model = b"" if options["model"] is None else options["model"].read_bytes()
        ran.append((options["controller"] or str(options["estimator"]), model.decode(errors="replace")))
        score = 10.0 * len(model) + len(trace if isinstance(trace, str) else trace.read_bytes())
        return SimpleNamespace(
            scores={
                "estimate_accuracy": 0.5,
                "estimate_smape": 0.4,
                "throughput_bps": 1e6,
                "one_way_delay_ms": {"mean": 100.0},
                "network": {"delay": 0.5, "rate": 0.8, "loss": 0.01, "challenge": score, "bob": score},
                "ssim_db": {"mean": 15.0},
                "video_delay_ms": {"p95": 200.0},
            }
        )

    monkeypatch.setattr(bob, "simulate", simulate)
    monkeypatch.setattr(bob, "vmaf_missing", lambda: None)
    monkeypatch.setattr(bob, "vmaf_line", lambda _study: (2.0, 60.0))
    monkeypatch.setattr(bob, "timed", lambda _run, _share: 30.0)
    return ran


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """A study of BoB with custom models on one profile."""
    for folder in ("models", "profiles"):
        (tmp_path / folder).mkdir()
    for name in bob.LEARNED:
        (tmp_path / "models" / f"{name}.onnx").write_text(name)
    (tmp_path / "profiles" / "cascade_profile_x0.25").write_text("rate 300kbit\nwait 2s\n")
    return [
        *("--output", str(tmp_path / "study"), "--models", str(tmp_path / "models"), "--seeds", "1", "--workers", "1"),
        *("--profiles", str(tmp_path / "profiles"), "--parts", "estimators", "--codecs", "functional"),
    ]


def totals(folder: Path) -> dict[str, float]:
    table = polars.read_parquet(folder / "study" / "estimators.parquet")
    return dict(zip(table["estimator"], table["total_bob"], strict=True))


@pytest.mark.slow
def test_only_a_replaced_model_runs_again(tmp_path: Path, ran: Ran, words: list[str]) -> None:
    assert bob.main(words) == 0
    before = totals(tmp_path)
    assert len(ran) == len(bob.ESTIMATORS)
    ran.clear()
    assert bob.main(words) == 0
    assert not ran
    (tmp_path / "models" / "bob.onnx").write_text("another bob")
    assert bob.main(words) == 0
    assert ran == [("bob", "another bob")]
    after = totals(tmp_path)
    assert after["bob"] == before["bob"] + 10 * len("another ")
    assert {**after, "bob": before["bob"]} == before


@pytest.mark.parametrize("other", ["trace", "program", "vmaf", "seconds"])
@pytest.mark.slow
def test_changed_inputs_make_calls_run_again(
    other: str, tmp_path: Path, ran: Ran, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bob.main(words) == 0
    ran.clear()
    if other == "trace":
        # Another folder with a file of the same name and other contents.
        (tmp_path / "others").mkdir()
        (tmp_path / "others" / "cascade_profile_x0.25").write_text("rate 400kbit\nwait 2s\n")
        words += ["--profiles", str(tmp_path / "others")]
    elif other == "program":
        monkeypatch.setattr(bob, "program_hash", lambda: "another")
    elif other == "vmaf":
        monkeypatch.setattr(bob, "vmaf_line", lambda _study: (2.5, 60.0))
    else:
        words += ["--seconds", "30"]
    assert bob.main(words) == 0
    assert len(ran) == len(bob.ESTIMATORS)


def test_missing_model_is_reported_despite_kept_results(tmp_path: Path, ran: Ran, words: list[str]) -> None:
    assert bob.main(words) == 0
    ran.clear()
    (tmp_path / "models" / "hrcc.onnx").unlink()
    with pytest.raises(ValueError, match=r"hrcc\.onnx: no such file"):
        bob.main(words)
    assert not ran


@pytest.mark.usefixtures("ran")
def test_bob_announces_all_calls_before_the_first(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert bob.main([*words, "--codecs", "functional", "conventional"]) == 0
    fitted = "12 calls that relate VMAF to SSIM, "
    both = "4 calls of 60 s with the functional codec, 4 calls of 60 s with the conventional codec"
    assert f"study bob: {fitted}{both}; about 10 min in all\n" in capsys.readouterr().err


def test_study_without_vmaf_compares_network_scores(
    tmp_path: Path, ran: Ran, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bob, "vmaf_missing", lambda: "ffmpeg has no libvmaf")
    monkeypatch.setattr(bob, "vmaf_line", None)
    assert bob.main(words) == 0
    assert len(ran) == len(bob.ESTIMATORS)
    output = capsys.readouterr()
    assert re.search(r"ffmpeg has no libvmaf.*install imageio-ffmpeg and .*LOCKSTEP_VMAF=", output.err)
    assert "BoB's network score is above its heuristic's on" in output.out
    assert "total_bob" not in output.out

    def same(model: Path, threshold: int, folder: Path) -> None:
        (folder / f"bob-{threshold}.onnx").write_bytes(model.read_bytes())

    monkeypatch.setattr(bob, "model_with", same)
    assert bob.main([*words, "--parts", "thresholds"]) == 0
    output = capsys.readouterr()
    assert "no VMAF and no total scores (ffmpeg has no libvmaf)" in output.err
    assert "network_bob" in output.out
    assert "total_bob" not in output.out
    table = polars.read_parquet(tmp_path / "study" / "thresholds.parquet")
    assert table["vmaf"].null_count() == table["total_bob"].null_count() == len(table) == len(bob.THRESHOLDS)


def test_paper_scores_are_columns_in_its_units(tmp_path: Path, ran: Ran, words: list[str]) -> None:
    assert bob.main(words) == 0
    assert len(ran) == len(bob.ESTIMATORS)
    row = polars.read_parquet(tmp_path / "study" / "estimators.parquet").row(0, named=True)
    assert (row["accuracy"], row["smape"]) == (50.0, 0.4)
    assert (row["rate_score"], row["delay_score"], row["loss_score"]) == (80.0, 50.0, 99.0)
    # The rates of the file with the paper's rates, not of the one with all of them.
    assert bob.parser().parse_args([]).clip == "generated:640x360@24"
    assert row["trace"] == content_hash(tmp_path / "profiles" / "cascade_profile_x0.25")


def test_published_estimators_are_rows_of_their_own(
    tmp_path: Path, ran: Ran, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "published" / "BandwidthEstimator_gemini.py"
    file.parent.mkdir()
    file.write_text("class Estimator: ...")
    with_file = [*words, "--estimators", str(file)]
    assert bob.main(with_file) == 0
    assert [name for name, _ in ran] == [*bob.ESTIMATORS, str(file)]
    assert "BandwidthEstimator_gemini.py" in capsys.readouterr().out
    ran.clear()
    # A module beside the file is a part of the estimator.
    (file.parent / "model.pth").write_text("weights")
    assert bob.main(with_file) == 0
    assert [name for name, _ in ran] == [str(file)]
    with pytest.raises(ValueError, match=r"none\.py: no such file"):
        bob.main([*words, "--estimators", str(tmp_path / "none.py")])


def test_bob_as_published_is_trained_for_its_row(ran: Ran, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[list[str]] = []

    def train(study: Study, algorithm: str, run: str, arguments: list[str]) -> Path:
        trained.append(arguments)
        model = study.folder / "runs" / run / f"{algorithm}.onnx"
        model.parent.mkdir(parents=True, exist_ok=True)
        model.write_text("as published")
        return model

    monkeypatch.setattr(Study, "train", train)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: True)
    assert bob.main([*words, "--as-published", "--episodes", "7"]) == 0
    assert ("bob-printed", "as published") in ran
    assert ("bob-heuristic-printed", "") in ran
    (arguments,) = trained
    assert arguments[: arguments.index("--call-seconds")] == ["--as-published", "--episodes", "7"]


def test_default_profiles_are_generated(
    tmp_path: Path, ran: Ran, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    at = words.index("--profiles")
    assert bob.main(words[:at] + words[at + 2 :]) == 0
    output = capsys.readouterr()
    assert "on 6 generated profiles (the published profiles are in BoB's public repository" in output.out
    assert "using generated profiles similar to BoB's" in output.err
    table = polars.read_parquet(tmp_path / "study" / "estimators.parquet")
    assert set(table["profile"]) == {f"{profile}, generated" for profile in PROFILES}
    assert len(ran) == len(bob.ESTIMATORS) * len(PROFILES)


@pytest.mark.parametrize("share", [1.0, 0.25])
def test_generated_profiles_have_the_mean_rates_of_bob(share: float) -> None:
    means = {  # kb/s, of the published files
        "FCCamazone": 2707,
        "NYUbus": 9632,
        "Synthtic": 2328,
        "cascade_profile": 880,
        "lte_profile": 2966,
        "twitch_profile": 1327,
    }
    for profile, mean in means.items():
        call = lockstep.simulate(generated(profile, share), controller="fixed:50kbps", modelled=True, seconds=120.0)
        capacity = call.series["capacity_bps"].mean() / 1e3
        assert capacity == pytest.approx(mean * share, rel=0.05), profile


def test_folder_without_profiles_names_their_source(tmp_path: Path, words: list[str]) -> None:
    with pytest.raises(ValueError, match=r"no profile of BoB's paper in .* \(.*NUStreaming/BoB on GitHub"):
        bob.main([*words, "--profiles", str(tmp_path)])


def test_vmaf_availability_is_tested_by_a_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKSTEP_VMAF", str(tmp_path / "none"))
    assert str(bob.vmaf_missing()).startswith(f"cannot run {tmp_path / 'none'}")
    assert not bob.vmaf_program()


@pytest.mark.slow
def test_models_are_identified_by_content_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured, trained = [], []

    def measure(controller: str, *_: Any, model: Path | None, **__: Any) -> dict[str, float]:
        measured.append(controller)
        return dict.fromkeys(MEASURES, float(len(model.read_bytes())) if model else 1.0)

    def train(_: Study, algorithm: str, run: str, arguments: list[str]) -> Path:
        path = tmp_path / run / f"{algorithm}.onnx"
        if not path.exists():
            trained.append(arguments)
            path.parent.mkdir()
            path.write_text("concerto")
        return path

    monkeypatch.setattr(concerto, "measure", measure)
    monkeypatch.setattr(Study, "train", train)
    monkeypatch.setattr(concerto, "torch_missing", lambda: False)
    monkeypatch.setattr(concerto, "works", lambda _study, _options: [])
    (tmp_path / "rlv.onnx").write_text("rlv")
    words = ["--output", str(tmp_path / "study"), "--traces", "1", "--seeds", "1", "--workers", "1"]
    words += ["--rlv", str(tmp_path / "rlv.onnx"), "--parts", "controllers", "inputs"]

    def again() -> dict[str, int]:
        measured.clear()
        assert concerto.main(words) == 0
        return {name: measured.count(name) for name in sorted(set(measured))}

    first = again()
    assert first == {"concerto": 6 + 6, "gcc": 6, "hindsight": 6, "rlv": 6, "salsify": 6}
    assert len(trained) == 2
    assert again() == {}
    (tmp_path / "rlv.onnx").write_text("another")
    assert again() == {"rlv": 6}
    model = next(path for path in tmp_path.glob("*/concerto.onnx") if "inputs=transport" in str(path))
    model.write_text("another concerto")
    assert again() == {"concerto": 3}
    # Another program measures again, and trains in other folders.
    monkeypatch.setattr(concerto, "program_hash", lambda: "another program")
    assert again() == first
    assert len(trained) == 4
    (tmp_path / "rlv.onnx").unlink()
    with pytest.raises(ValueError, match=r"--rlv .*rlv\.onnx: no such file"):
        concerto.main(words)


@pytest.mark.slow
def test_training_parts_use_every_seed_and_print_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def train(_: Study, algorithm: str, run: str, __: list[str]) -> Path:
        path = tmp_path / run / f"{algorithm}.onnx"
        path.parent.mkdir(exist_ok=True)
        path.write_text(run)
        return path

    monkeypatch.setattr(concerto, "measure", lambda *_, **__: dict.fromkeys(MEASURES, 1.0))
    monkeypatch.setattr(concerto, "torch_missing", lambda: False)
    monkeypatch.setattr(concerto, "timed", lambda _run, _share: 0.5)
    monkeypatch.setattr(concerto, "training_seconds", lambda _options: 60.0)
    monkeypatch.setattr(Study, "train", train)
    parts = [part for part in concerto.PARTS if part != "observation"]
    folder = tmp_path / "study"
    words = ["--output", str(folder), "--traces", "1", "--seeds", "2", "--workers", "1", "--parts", *parts]
    assert concerto.main(words) == 0
    output, announced = capsys.readouterr()
    # 19 of the trainings differ, with two seeds each; calls of 26 variants and 5 controllers.
    assert announced.startswith("study concerto: 38 trainings, 192 measurements of 1 calls; about 40 min in all\n")
    for part in parts:
        table = polars.read_parquet(folder / f"{part}.parquet")
        ours = table.filter(polars.col("controller") == "concerto")
        variants = ours.group_by([name for name in ("variant", "network", "codec") if name in ours.columns])
        assert variants.agg(polars.col("seed").sort())["seed"].to_list() == [[1, 2]] * len(variants.agg()), part
        assert table["budget"].unique().to_list() == ["small"]
        assert f"{part}, budget small: 2 seeds" in output
        assert f"{part}, budget small" in (folder / f"{part}.txt").read_text()
    # There are figures for controllers, inputs and losses.
    assert output.count("No figure of the paper is available") == len(parts) - 3
    assert "Salsify, on GCC's transport" in output
    table = polars.read_parquet(folder / "controllers.parquet")
    of_salsify = table.filter(polars.col("controller") == "gcc", polars.col("codec") == "functional")
    assert len(of_salsify) == len(concerto.FAMILIES)


def test_losses_of_concerto_are_those_of_its_paper() -> None:
    def of(arguments: tuple[str, ...]) -> tuple[str, float, float]:
        made = parser("concerto").parse_args(["--output", "nowhere", *arguments])
        return made.loss, made.overshoot, made.smoothness

    found = {name: of(arguments) for name, arguments in concerto.VARIANTS["losses"].items()}
    assert found == {
        "l1 (cross-entropy)": ("cross-entropy", 8.0, 0.5),
        "l2 (C = 0)": ("weighted", 8.0, 0.5),
        "l3 (C = 100)": ("overshoot", 100.0, 0.5),
        "l4 (C = 8)": ("overshoot", 8.0, 0.5),
    }


def test_trainings_as_published_have_folders_of_their_own() -> None:
    options = concerto.parser().parse_args(["--as-published"])
    name, words = concerto.run_of(options, ("--network", "1d"), 2)
    own, _ = concerto.run_of(concerto.parser().parse_args([]), ("--network", "1d"), 2)
    assert name.startswith("as-published-")
    assert name != own
    made = parser("concerto").parse_args(["--output", "nowhere", *words])
    assert (made.as_published, made.network, made.interval_ms, made.seed) == (True, "1d", 1_000, 2)
    # As many decisions as in the calls of the other trainings.
    assert made.call_seconds == 5 * float(concerto.TRAINING["small"][-1])


@pytest.mark.parametrize("study", ["bob", "concerto"])
@pytest.mark.parametrize("wrong", [("--seeds", "0"), ("--seeds", "-2"), ("--workers", "0"), ("--seconds", "nan")])
def test_study_argument_out_of_range_is_refused(
    study: str, wrong: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([study, "--output", str(tmp_path), *wrong])
    assert ended.value.code == 2
    assert f"error: argument {wrong[0]}: {wrong[1]!r} is not a" in capsys.readouterr().err


TRAINING = """#!/bin/sh
echo $$ >> {began}
trap '' INT
exec sleep 60
"""
STUDY = """
import sys, time
from pathlib import Path
from lockstep.study import Study

def main(words):
    study = Study("slow", Path(words[0]), quiet=True)
    sys.executable = words[1]
    cells = [{"seed": seed} for seed in range(6)]

    def measure(cell):
        if cell["seed"] == 0:
            return {"delay": 1.0}
        if cell["seed"] == 1 and words[2] != "1":
            time.sleep(60)  # like a call, which cannot be stopped
        return {"model": str(study.train("concerto", str(cell["seed"]), []))}

    study.run(cells, measure, int(words[2]))
    return 0
"""


def eventually(holds: Callable[[], bool], seconds: float = 60.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.05)
    return holds()


@pytest.mark.skipif(os.name != "posix", reason="signals of processes")
@pytest.mark.parametrize("workers", ["1", "3"])
@pytest.mark.slow
def test_interrupted_study_ends_trainings_and_keeps_results(workers: str, tmp_path: Path) -> None:
    package = tmp_path / "slow_studies"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "slow.py").write_text(STUDY)
    began, training, folder = tmp_path / "began", tmp_path / "training", tmp_path / "study"
    training.write_text(TRAINING.format(began=began))
    training.chmod(0o755)
    run = "import sys; from lockstep.module_command import run_module; "
    run += "sys.exit(run_module('lockstep study', 'slow_studies', {'slow': ''}, 'study', sys.argv[1:]))"
    words = [sys.executable, "-c", run, "slow", str(folder), str(training), workers]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    trainings = 1 if workers == "1" else 2
    with subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True) as study:  # noqa: S603
        try:
            assert eventually(lambda: began.exists() and len(began.read_text().split()) == trainings)
            assert eventually(lambda: '"seed": 0' in (folder / "slow.journal").read_text())
            study.send_signal(signal.SIGINT)
            _, output = study.communicate(timeout=45)
        finally:
            study.kill()
    assert study.returncode == 130
    assert "interrupted; run the same command again to resume" in output
    assert "Traceback" not in output
    started = began.read_text().split()
    assert len(started) == trainings
    assert not any(Path(f"/proc/{process}").exists() for process in started)
    journal = (folder / "slow.journal").read_text()
    assert journal.count("\n") == 1
    assert '"seed": 0' in journal
