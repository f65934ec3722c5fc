"""Searches over seeds and settings. Trainings are fake, except in the last tests, which require PyTorch or Ray."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars
import pytest
from fake_ray import FakeRay
from tiny_trainings import TINY

from lockstep import _lockstep
from lockstep.learn import search_ray
from lockstep.learn.__main__ import main
from lockstep.learn.arguments import parser, setting_of
from lockstep.learn.judging import CODECS, MEASURES
from lockstep.ray_cluster import LOCAL, ClusterError
from lockstep.study import Study

trained: list[list[str]] = []
"""Arguments of the fake trainings."""


def pretend(words: Sequence[str]) -> int:
    """Writes the files of a training; its score grows with the seed and the learning rate."""
    assert words[1:3] == ["-m", "lockstep.learn"]
    algorithm, parsed = words[3], list(words[4:])
    trained.append(parsed)
    options = parser(algorithm).parse_args(parsed)
    if options.seed == 13:
        return 1
    folder = options.output
    (folder / "tensorboard").mkdir(parents=True, exist_ok=True)
    (folder / "tensorboard" / "events").write_text("1")
    (folder / "lessons-0.npz").write_bytes(bytes(1_000))
    (folder / "setting.json").write_text(json.dumps(setting_of(algorithm, options)))
    (folder / f"{algorithm}.onnx").write_bytes(b"model")
    scores = {
        f"{algorithm}, {codec}": {
            **dict.fromkeys(MEASURES, 1.0),
            "qoe_d": options.seed + 1e3 * options.learning_rate + place,
            "worst_qoe_d": 0.5,
        }
        for place, codec in enumerate(CODECS)
    }
    card = {"training_seconds": 3, "scores": scores if options.judged else {"calls": 0}}
    (folder / f"{algorithm}.json").write_text(json.dumps(card))
    return 0


@pytest.fixture(autouse=True)
def _pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    trained.clear()
    monkeypatch.setattr(Study, "run_process", lambda _study, words, _output, _errors: pretend(words))


GRID = ("--seeds", "1-2", "--search", "learning-rate=1e-3,2e-3", "--search", "round=2,4")


def searched(folder: Path, *words: str) -> int:
    return main(["hrcc", "--output", str(folder), "--quiet", *words])


def test_search_trains_each_combination_in_its_own_folder(tmp_path: Path) -> None:
    assert searched(tmp_path, "--updates", "7", *GRID) == 0
    parsed = [parser("hrcc").parse_args(words) for words in trained]
    assert [(one.seed, one.learning_rate, one.round) for one in parsed] == [
        (seed, rate, every) for seed in (1, 2) for rate in (1e-3, 2e-3) for every in (2, 4)
    ]
    assert {one.updates for one in parsed} == {7}
    assert len({one.output for one in parsed}) == 8
    assert {one.output.parent for one in parsed} == {tmp_path / "runs"}
    assert parsed[1].output.name == "seed=1-learning-rate=1e-3-round=4"
    # Trainings do not have arguments that only a search has.
    assert not any(one.seeds or one.search or one.on for one in parsed)


def test_table_has_a_row_per_training_and_names_the_best(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert searched(tmp_path, *GRID) == 0
    table = polars.read_parquet(tmp_path / "hrcc.parquet")
    assert len(table) == 8
    first = table.row(0, named=True)
    assert (first["seed"], first["learning-rate"], first["round"]) == (1, 1e-3, 2)
    assert (first["qoe_d"], first["qoe_d_functional"], first["qoe_d_conventional"]) == (2.5, 2.0, 3.0)
    assert (tmp_path / first["model"]).read_bytes() == b"model"
    output = capsys.readouterr().out.splitlines()
    best = "seed 2, learning-rate 0.002, round 2, QoE_d 4.500"
    assert output[-1] == f"best of 8: {best}: {tmp_path}/runs/seed=2-learning-rate=2e-3-round=2/hrcc.onnx"
    # One line for each setting, the best first.
    rates = [line.split()[0] for line in output if line.startswith("0.00")]
    assert rates == ["0.002", "0.002", "0.001", "0.001"]


def test_only_missing_or_new_trainings_run_again(tmp_path: Path) -> None:
    assert searched(tmp_path, "--seeds", "1-3") == 0
    assert len(trained) == 3
    assert searched(tmp_path, "--seeds", "1-3") == 0
    assert len(trained) == 3
    (tmp_path / "runs" / "seed=2" / "hrcc.onnx").unlink()
    (tmp_path / "runs" / "seed=2" / "finished").unlink()
    assert searched(tmp_path, "--seeds", "1-4") == 0
    assert [parser("hrcc").parse_args(words).seed for words in trained[3:]] == [2, 4]
    assert polars.read_parquet(tmp_path / "hrcc.parquet")["seed"].to_list() == [1, 2, 3, 4]


def test_failed_training_is_named_and_others_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert searched(tmp_path, "--seeds", "12-13") == 1
    output = capsys.readouterr().err
    assert f"the training in {tmp_path}/runs/seed=13 failed with status 1" in output
    assert output.count("\n") == 1
    assert searched(tmp_path, "--seeds", "12") == 0
    assert len(trained) == 2


def test_other_settings_require_another_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert searched(tmp_path, "--seeds", "1,2") == 0
    assert searched(tmp_path, "--seeds", "1,2", "--generated", "5") == 1
    output = capsys.readouterr().err
    assert f"{tmp_path}/runs/seed=1 has a run with other settings (generated); name another folder" in output
    assert len(trained) == 2
    assert searched(tmp_path / "runs" / "seed=1", "--seeds", "1,2") == 1
    assert "has a single training, not a search" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--workers", "2"), "add --seeds or --search"),
        (("--on", LOCAL), "add --seeds or --search"),
        (("--seeds", "1-2", "--on", LOCAL, "--workers", "2"), "exclude each other"),
        (("--seeds", "1-2", "--export"), "--export works for one training"),
        (("--search", "mood=1,2"), "--search mood: unknown argument of hrcc"),
        (("--search", "output=a,b"), "--search output: unknown argument of hrcc"),
        (("--search", "history=conv,lstm"), "--search history: unknown argument of hrcc"),
        (("--seeds", "1-2", "--search", "seed=1,2"), "--search seed: the argument is repeated"),
        (("--search", "clip=0.1", "--search", "clip=0.2"), "--search clip: the argument is repeated"),
        (("--seeds", "1-9000", "--search", "clip=0.1,0.2"), "at most 10000 trainings"),
        (("--search", "split=a/b,a_b"), "the same folder name"),
    ],
)
def test_invalid_search_is_refused_before_any_training(
    words: tuple[str, ...], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert searched(tmp_path / "search", *words) == 1
    output = capsys.readouterr().err
    assert why in output
    assert output.count("\n") == 1
    assert not trained
    assert not (tmp_path / "search").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--seeds", "5-1"),
        ("--seeds", "1-2-3"),
        ("--seeds", "1-20000"),
        ("--seeds", ""),
        ("--search", "clip"),
        ("--search", "clip=0.1,"),
        ("--search", "clip=0.1,5"),
        ("--seeds", "1", "--on", "tcp://host"),
        ("--seeds", "1", "--on", "ray://"),
    ],
)
def test_invalid_argument_of_a_search_is_refused(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        searched(tmp_path / "search", *words)
    assert ended.value.code == 2
    assert "error: argument " in capsys.readouterr().err
    assert not trained


def test_search_without_judging_has_no_best(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert searched(tmp_path, "--seeds", "1-2", "--judged", "0") == 0
    assert "no model was judged (--judged 0)" in capsys.readouterr().out
    assert len(polars.read_parquet(tmp_path / "hrcc.parquet")) == 2


# --- On a cluster ---------------------------------------------------------------------------------------------------


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    """A cluster of this machine only, with fake trainings."""
    made = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", made)

    def run(words: Sequence[str], *, stdout: Any, cwd: Path, **_: Any) -> SimpleNamespace:
        assert cwd == Path.cwd()
        status = pretend(words)
        if status:
            stdout.write(b"a line\nlockstep train: it is not to be\n")
        return SimpleNamespace(returncode=status)

    monkeypatch.setattr(
        search_ray, "subprocess", SimpleNamespace(run=run, CompletedProcess=subprocess.CompletedProcess)
    )
    return made


@pytest.mark.parametrize("sees", [True, False])
def test_cluster_trains_the_rest_and_returns_all_but_samples(
    sees: bool, ray: FakeRay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not sees:
        monkeypatch.setattr(search_ray, "_sees", lambda _origin: False)
    assert searched(tmp_path, "--seeds", "1", "--threads", "1") == 0
    assert ray.asked == {}
    assert searched(tmp_path, "--seeds", "1-3", "--threads", "1", "--on", LOCAL) == 0
    assert ray.address == "local"
    assert ray.asked == {"num_cpus": 1, "num_gpus": 0}
    parsed = [parser("hrcc").parse_args(words) for words in trained[1:]]
    assert sorted(one.seed for one in parsed) == [2, 3]
    assert {one.device for one in parsed} == {"cpu"}
    for one in parsed:
        run = tmp_path / "runs" / f"seed={one.seed}"
        assert (one.output == run) == sees
        assert (run / "hrcc.onnx").read_bytes() == b"model"
        assert (run / "tensorboard" / "events").exists()
        assert (run / "lessons-0.npz").exists() == sees
    assert polars.read_parquet(tmp_path / "hrcc.parquet")["qoe_d"].to_list() == pytest.approx([1.53, 2.53, 3.53])
    assert not (tmp_path / search_ray.MARK).exists()
    # No training is left, here or on the cluster.
    (tmp_path / "hrcc.journal").unlink()
    assert searched(tmp_path, "--seeds", "1-3", "--threads", "1") == 0
    assert len(trained) == 3


def test_failure_on_a_cluster_is_reported_after_the_others(
    ray: FakeRay, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ray.resources
    assert searched(tmp_path, "--seeds", "12-14", "--on", LOCAL) == 1
    output = capsys.readouterr().err
    assert "the training seed=13 failed on " in output
    assert output.endswith(": lockstep train: it is not to be\n")
    assert output.count("\n") == 1
    assert len((tmp_path / "hrcc.journal").read_text().splitlines()) == 2


def test_cluster_task_requests_a_gpu_for_device_cuda(
    ray: FakeRay, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--seeds", "1-2", "--device", "cuda", "--on", LOCAL)
    assert searched(tmp_path, *words) == 1
    assert "the cluster has 0 GPUs, but each task requires 1" in capsys.readouterr().err
    ray.resources["GPU"] = 1.0
    assert searched(tmp_path, *words) == 0
    assert ray.asked["num_gpus"] == 1
    assert parser("hrcc").parse_args(trained[0]).device == "cuda"
    assert searched(tmp_path / "more", "--seeds", "1-2", "--threads", "64", "--on", LOCAL) == 1
    assert "the cluster has 2 cores, but each task requires 64" in capsys.readouterr().err


def test_cluster_machine_names_what_it_lacks(tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    (traces / "0.up").write_text("1\n")
    options = parser("hrcc").parse_args(["--output", "nowhere", "--traces", str(traces), "--family", "umts"])
    data = search_ray.data_of(options)
    assert data.keys() == {str(traces)}
    task = search_ray.Task("hrcc", (), tmp_path / "run", data)
    version = _lockstep.version()
    origin = search_ray.Origin(version, Path.cwd(), tmp_path, "mark")
    with pytest.raises(ClusterError, match=rf" has Lockstep {version}, but the search started with 0\.0\.0; "):
        search_ray.train_there(task, search_ray.Origin("0.0.0", Path.cwd(), tmp_path, "mark"), 0)
    (traces / "0.up").write_text("2\n")
    with pytest.raises(ClusterError, match=rf"{traces} on .* differs from"):
        search_ray.train_there(task, origin, 0)
    (traces / "0.up").unlink()
    traces.rmdir()
    with pytest.raises(ClusterError, match=rf" has no {traces}; copy it to every machine of the cluster"):
        search_ray.train_there(task, origin, 0)


def test_missing_ray_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert searched(tmp_path, "--seeds", "1-2", "--on", LOCAL) == 1
    output = capsys.readouterr().err
    assert output.startswith("lockstep train: cannot import Ray; install it with: ")
    assert output.count("\n") == 1


# --- Real trainings -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", [(), ("--on", LOCAL)])
def test_search_gives_the_weights_of_single_trainings(
    where: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch: Any = pytest.importorskip("torch", reason="requires PyTorch: `make test-learn`")
    cluster: Any = pytest.importorskip("ray", reason="Ray is not installed") if where else None
    monkeypatch.undo()
    words = ["hrcc", "--threads", "1", "--judged", "1", "--device", "cpu", *TINY["hrcc"]]
    try:
        assert main([*words, "--output", str(tmp_path / "search"), "--seeds", "1-2", *where]) == 0
    finally:
        if cluster is not None:
            cluster.shutdown()
    assert main([*words, "--output", str(tmp_path / "alone"), "--seed", "2", "--quiet"]) == 0
    kept = [
        torch.load(folder / "checkpoint.pt", weights_only=False)["state"]["net"]
        for folder in (tmp_path / "search" / "runs" / "seed=2", tmp_path / "alone")
    ]
    assert all(torch.equal(kept[0][name], kept[1][name]) for name in kept[1])
    assert len(polars.read_parquet(tmp_path / "search" / "hrcc.parquet")) == 2
