"""Folders of training runs, and errors before a run begins. All tests require PyTorch (`make test-learn`)."""

import hashlib
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from tiny_trainings import train

from lockstep.learn import ALGORITHMS
from lockstep.learn.__main__ import export
from lockstep.learn.arguments import parser

MODELS = Path(__file__).parents[1] / "lockstep" / "learn" / "models"


@pytest.fixture(autouse=True)
def _torch() -> None:
    pytest.importorskip("torch", reason="requires PyTorch: `make test-learn`")
    pytest.importorskip("onnx", reason="requires ONNX: `make test-learn`")


def test_another_setting_requires_another_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train("concerto", tmp_path, "--stop-after", "1") == 0
    assert train("concerto", tmp_path, "--seed", "2") == 1
    assert "other settings (seed)" in capsys.readouterr().err


def test_missing_or_damaged_setting_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train("hrcc", tmp_path, "--stop-after", "1") == 0
    kept = (tmp_path / "setting.json").read_text()
    for text in (kept[:40], "[]", "{}", "\0"):
        (tmp_path / "setting.json").write_text(text)
        assert train("hrcc", tmp_path) == export([str(tmp_path)]) == 1
        error = capsys.readouterr().err.splitlines()
        assert len(error) == 2
        assert all(f"cannot read {tmp_path / 'setting.json'} as the setting of a run" in line for line in error)
    (tmp_path / "setting.json").unlink()
    assert train("hrcc", tmp_path) == 1
    assert "no setting.json with the settings" in capsys.readouterr().err
    assert not (tmp_path / "setting.json").exists()
    (tmp_path / "setting.json").write_text(kept)
    assert train("hrcc", tmp_path) == 0


@pytest.mark.parametrize("left", [0.0, 0.01, 0.5, 0.99])
def test_damaged_checkpoint_is_named(left: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train("concerto", tmp_path, "--stop-after", "1") == 0
    for name in ("checkpoint.pt", "loop-0.npz"):
        path = tmp_path / name
        whole = path.read_bytes()
        path.write_bytes(whole[: int(left * len(whole))])
        assert train("concerto", tmp_path) == 1
        error = capsys.readouterr().err
        assert error.startswith(f"lockstep train: {path} is damaged")
        assert error.endswith("restore it, or delete checkpoint.pt to start again\n")
        assert error.count("\n") == 1
        path.write_bytes(whole)


def test_full_disk_is_reported_without_partial_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    assert train("hrcc", tmp_path, "--stop-after", "1") == 0
    before = (tmp_path / "checkpoint.pt").read_bytes()
    (tmp_path / "checkpoint.pt.new").symlink_to("/dev/full")
    assert train("hrcc", tmp_path) == 1
    error = capsys.readouterr().err
    assert f"cannot write {tmp_path / 'checkpoint.pt'}: no space left on the disk" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "checkpoint.pt.new").is_symlink()
    assert (tmp_path / "checkpoint.pt").read_bytes() == before


def folder_of_traces(folder: Path, count: int) -> Path:
    """A folder of traces that also has other files."""
    folder.mkdir()
    for index in range(count):
        (folder / f"{index}.up").write_text("".join(f"{time}\n" for time in range(1, 2_000, 5 + index)))
    (folder / "downloads.json").write_text('{"files": []}')
    (folder / "licence.txt").write_text("Anybody may use these.\n")
    return folder


def test_invalid_folder_of_traces_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train("hrcc", tmp_path / "run", "--traces", str(tmp_path / "none")) == 1
    assert f"--traces {tmp_path / 'none'}: no such folder" in capsys.readouterr().err
    few = folder_of_traces(tmp_path / "few", 4)
    assert train("hrcc", tmp_path / "run", "--traces", str(few)) == 1
    assert f"--traces {few}: expected at least five traces, found 4" in capsys.readouterr().err


def test_invalid_traces_are_skipped_and_named_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folder_of_traces(tmp_path / "traces", 5)
    assert train("hrcc", tmp_path / "run", "--traces", str(folder), "--generated", "0") == 0
    error = capsys.readouterr().err.splitlines()
    assert [line.partition(": ")[0] for line in error] == ["skipped downloads.json", "skipped licence.txt"]
    assert "skipped downloads.json: not an AlphaRTC trace" in error[0]


@pytest.mark.parametrize(
    ("algorithm", "wrong", "right"),
    [
        ("concerto", ("--traces", "none"), ()),
        ("hrcc", ("--traces", "none"), ("--seed", "2")),
        ("concerto", ("--batch", "100000"), ("--batch", "16")),
        ("rlv", ("--batch", "100000"), ()),
        ("lockstep", ("--split", "none"), ()),
        ("bob", ("--split", "none"), ()),
        ("gemini", ("--fold", "1"), ()),
        ("lockstep", ("--tuned-clip", "none"), ()),
    ],
)
def test_wrong_argument_can_be_corrected_in_the_same_folder(
    algorithm: str, wrong: tuple[str, ...], right: tuple[str, ...], tmp_path: Path
) -> None:
    assert train(algorithm, tmp_path, *wrong) == 1
    assert not (tmp_path / "setting.json").exists()
    assert train(algorithm, tmp_path, *right, "--stop-after", "1") == 0
    assert (tmp_path / "setting.json").exists()


def manifest_of(folder: Path, named: str, manifest: Path) -> Path:
    """A manifest as ``lockstep data split`` writes it, except for the order of names."""
    names = sorted(path.name for path in folder.glob("*.up"))
    files = [{"path": name, "sha256": hashlib.sha256((folder / name).read_bytes()).hexdigest()} for name in names]
    ends = [len(names) * part // 6 for part in range(1, 7)]
    folds = [{"train": names[:end], "test": names[end:after]} for end, after in pairwise(ends)]
    split = {"folder": named, "seed": 1, "files": files, "train": names[:-1], "test": names[-1:], "walk_forward": folds}
    manifest.write_text(json.dumps(split))
    return manifest


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_invalid_manifest_is_named(algorithm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = tmp_path / "split.json"
    without_hashes = '{"folder": "traces", "train": ["0.up"], "test": [], "files": []}'
    for text in ("{", "{}", "[1]", '{"folder": "traces", "train": [], "test": []}', without_hashes):
        manifest.write_text(text)
        for fold in ([], ["--fold", "1"]):
            assert train(algorithm, tmp_path / "run", "--split", str(manifest), *fold) == 1
            assert f"--split {manifest}: not a manifest of `lockstep data split`" in capsys.readouterr().err


@pytest.mark.parametrize("algorithm", ["lockstep", "rlv"])
def test_changed_or_missing_trace_of_a_manifest_is_named(
    algorithm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_of_traces(tmp_path / "traces", 5)
    manifest = manifest_of(folder, str(folder), tmp_path / "split.json")
    (folder / "3.up").write_text("1\n")
    assert train(algorithm, tmp_path / "run", "--split", str(manifest)) == 1
    error = capsys.readouterr().err
    assert f"--split {manifest}: {folder / '3.up'} has changed since the split" in error
    assert error.count("\n") == 1
    (folder / "3.up").unlink()
    assert train(algorithm, tmp_path / "run", "--split", str(manifest)) == 1
    assert f"trace {folder / '3.up'} is missing" in capsys.readouterr().err


NOTHING_ELSE: dict[str, tuple[str, ...]] = dict.fromkeys(ALGORITHMS, ("--generated", "0"))
NOTHING_ELSE["lockstep"] += ("--varied", "0", "--fitted", "0")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_algorithms_train_on_the_training_part_of_a_manifest(
    algorithm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_of_traces(tmp_path / "traces", 12)
    manifest = manifest_of(folder, str(folder), tmp_path / "split.json")
    words = ("--split", str(manifest), *NOTHING_ELSE[algorithm])
    for name, fold in (("whole", ()), ("fold", ("--fold", "3"))):
        assert train(algorithm, tmp_path / name, *words, *fold, "--stop-after", "1") == 0, capsys.readouterr().err
        setting = json.loads((tmp_path / name / "setting.json").read_text())
        assert (setting["split"], setting["fold"]) == ([str(manifest)], 3 if fold else None)
    assert train(algorithm, tmp_path / "whole", *words, "--fold", "3") == 1
    assert "other settings (fold)" in capsys.readouterr().err


def test_fold_trains_on_first_parts_and_judges_by_the_next(tmp_path: Path) -> None:
    from lockstep.learn.training import TESTS, Run  # noqa: PLC0415

    folder = folder_of_traces(tmp_path / "traces", 12)
    manifest = manifest_of(folder, str(folder), tmp_path / "split.json")
    other = manifest_of(folder_of_traces(tmp_path / "more", 7), str(tmp_path / "more"), tmp_path / "more.json")
    names = sorted(str(path) for path in folder.glob("*.up"))
    for fold, words in ((1, ["--fold", "1"]), (5, ["--fold", "5"]), (None, [])):
        arguments = [
            "--output",
            str(tmp_path / "run"),
            "--generated",
            "0",
            "--judged",
            "3",
            "--split",
            str(manifest),
            *words,
        ]
        with Run("hrcc", parser("hrcc").parse_args(arguments)) as run:
            training, test = run.traces()
            assert training == (names[:-1] if fold is None else names[: 2 * fold])
            assert test[TESTS:] == (names[-1:] if fold is None else names[2 * fold : 2 * fold + 2])
            assert run.judged(test) == test[:3] + test[TESTS:]
            assert (f"fold {fold}" in run.trained_on()) == (fold is not None)
            assert str(manifest) in run.trained_on()
        with Run("hrcc", parser("hrcc").parse_args([*arguments, "--split", str(other)])) as run:
            judged = run.judged(run.traces()[1])
            assert {Path(name).parent.name for name in judged[3:]} == {"traces", "more"}


def test_missing_fold_is_refused_with_the_number_of_folds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train("hrcc", tmp_path / "run", "--fold", "2") == 1
    assert "--fold 2 requires a manifest: add --split" in capsys.readouterr().err
    folder = folder_of_traces(tmp_path / "traces", 5)
    manifest = manifest_of(folder, str(folder), tmp_path / "split.json")
    assert train("hrcc", tmp_path / "run", "--split", str(manifest), "--fold", "6") == 1
    assert f"--fold 6: --split {manifest} has only 5 folds" in capsys.readouterr().err
    assert train("hrcc", tmp_path / "run", "--split", str(manifest), "--fold", "1") == 1
    assert "with 5 traces" in capsys.readouterr().err


def test_training_trace_is_never_a_judging_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folder_of_traces(tmp_path / "traces", 10)
    manifest = manifest_of(folder, str(folder), tmp_path / "split.json")
    words = ("--split", str(manifest))
    (tmp_path / "link").symlink_to(folder)
    for other in (("--traces", str(tmp_path / "link")), ("--split", str(tmp_path / "second.json"))):
        second = json.loads(manifest.read_text())
        second |= {"train": second["train"][1:] + second["test"], "test": second["train"][:1]}
        (tmp_path / "second.json").write_text(json.dumps(second))
        assert (
            train("lockstep", tmp_path / "run", *words, *other) == train("hrcc", tmp_path / "run", *words, *other) == 1
        )
        error = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("skipped")]
        assert len(error) == 2
        assert all("would be trained on and judged by" in line for line in error)


def test_run_without_a_newer_argument_resumes(tmp_path: Path) -> None:
    assert train("hrcc", tmp_path, "--stop-after", "1") == 0
    setting = json.loads((tmp_path / "setting.json").read_text())
    del setting["split"], setting["fold"]
    (tmp_path / "setting.json").write_text(json.dumps(setting))
    assert train("hrcc", tmp_path) == export([str(tmp_path)]) == 0
    assert train("hrcc", tmp_path, "--fold", "1") == 1


def test_folder_of_a_manifest_is_relative_to_cwd_or_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lockstep.learn.traces import split_names  # noqa: PLC0415

    folder_of_traces(tmp_path / "traces", 5)
    manifest = manifest_of(tmp_path / "traces", "traces", tmp_path / "split.json")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert split_names(manifest)[1] == [str(tmp_path / "traces" / "4.up")]
    monkeypatch.chdir(tmp_path)
    assert split_names(manifest)[1] == ["traces/4.up"]


def test_lockstep_training_without_traces_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nothing = ("--generated", "0", "--varied", "0", "--fitted", "0")
    assert train("lockstep", tmp_path / "run", *nothing) == 1
    assert "cannot train without traces: --generated 0, --fitted 0 and --varied 0" in capsys.readouterr().err
    assert train("hrcc", tmp_path / "run", "--generated", "0") == 1
    assert "cannot train without traces: --generated 0 without --traces" in capsys.readouterr().err
    manifest = manifest_of(folder_of_traces(tmp_path / "traces", 5), "traces", tmp_path / "split.json")
    for index, words in enumerate((("--split", str(manifest), *nothing), (*nothing[:-1], "2"))):
        assert train("lockstep", tmp_path / f"run-{index}", *words, "--stop-after", "1") == 0


def test_invalid_initial_model_is_refused_before_any_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from lockstep.learn import lockstep as own  # noqa: PLC0415

    def never(*_: object) -> None:
        raise AssertionError("a call started")

    monkeypatch.setattr(own, "training_samples", never)
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes((MODELS / "lockstep.onnx").read_bytes()[:5_000])
    for model, why in (
        (damaged, "truncated or invalid ONNX file"),
        (tmp_path / "none.onnx", "truncated or invalid ONNX file"),
        (MODELS / "hrcc.onnx", "expected a trained model of Lockstep's own"),
    ):
        assert train("lockstep", tmp_path / "run", "--begin", str(model)) == 1
        error = capsys.readouterr().err
        assert error.startswith(f"lockstep train: --begin {model}: ")
        assert why in error
        assert error.count("\n") == 1


def test_first_samples_come_from_the_initial_model(tmp_path: Path) -> None:
    import numpy as np  # noqa: PLC0415

    def first_samples(name: str, *words: str) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
        assert train("lockstep", tmp_path / name, *words, "--stop-after", "1") == 0
        seen: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = np.load(tmp_path / name / "lessons-0.npz")["seen"]
        return seen

    begun = first_samples("begun", "--begin", str(MODELS / "lockstep.onnx"))
    assert not np.array_equal(begun, first_samples("anew"), equal_nan=True)


def test_invalid_search_clip_is_refused_before_any_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from lockstep.learn import lockstep as own  # noqa: PLC0415

    def begun(*_: object) -> None:
        raise ValueError("a call started")

    monkeypatch.setattr(own, "training_samples", begun)
    text = tmp_path / "text.y4m"
    text.write_text("no pictures\n")
    good = ("--tuned-clip", "generated:176x144@30")
    for clip in (str(tmp_path / "none.y4m"), str(text), "generated:0x0"):
        assert train("lockstep", tmp_path / "run", *good, "--tuned-clip", clip) == 1
        error = capsys.readouterr().err
        assert error.startswith(f"lockstep train: --tuned-clip {clip}: cannot use this clip (")
        assert error.count("\n") == 1
    assert train("lockstep", tmp_path / "run", *good) == 1
    assert "a call started" in capsys.readouterr().err


def test_finished_training_prints_the_path_of_its_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train("lockstep", tmp_path) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'lockstep.onnx'}\n"
    assert export([str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'lockstep.onnx'}\n"


def test_folder_is_locked_during_a_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from lockstep.learn.training import LOCK  # noqa: PLC0415

    locking = (
        "import sys, time\nfrom filelock import FileLock\nlock = FileLock(sys.argv[1])\n"
        "lock.acquire()\nprint('locked', flush=True)\ntime.sleep(60)"
    )
    words = [sys.executable, "-c", locking, str(tmp_path / LOCK)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as other:  # noqa: S603
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        assert train("hrcc", tmp_path, "--stop-after", "1") == 1
        error = capsys.readouterr().err
        assert f"another training uses {tmp_path}: wait for its end or name another folder" in error
        assert error.count("\n") == 1
        other.kill()
    assert train("hrcc", tmp_path, "--stop-after", "1") == 0


def test_missing_device_is_refused_before_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train("concerto", tmp_path / "run", "--device", "cuda:99") == 1
    error = capsys.readouterr().err
    assert "--device cuda:99: PyTorch finds" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_too_few_samples_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train("hrcc", tmp_path / "hrcc", "--minibatches", "16") == 1
    assert "--minibatches 16" in capsys.readouterr().err
    assert train("concerto", tmp_path / "concerto", "--batch", "100000") == 1
    assert "--batch 100000" in capsys.readouterr().err
