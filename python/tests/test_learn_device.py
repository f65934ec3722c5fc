"""Devices of trainings. All tests require PyTorch (`make test-learn`); they use a GPU if there is one."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tiny_trainings import TINY, train

from lockstep.learn.arguments import parser

torch: Any = pytest.importorskip("torch", reason="requires PyTorch: `make test-learn`")
pytest.importorskip("onnx", reason="requires ONNX: `make test-learn`")


def weights(folder: Path) -> dict[str, Any]:
    kept = torch.load(folder / "checkpoint.pt", map_location="cpu", weights_only=False)
    return dict(kept["state"]["net"])


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A stub device for trainings; `--device cuda` and `auto` select it."""
    from stub_device import AWAY, StubDevice  # noqa: PLC0415
    from torch.overrides import _pop_mode_temporarily  # noqa: PLC0415

    from lockstep.learn import lockstep as own  # noqa: PLC0415
    from lockstep.learn import training  # noqa: PLC0415

    write_onnx = training.write_onnx

    def write_outside(model: Any, *given: Any, **named: Any) -> None:
        # The exporter traces a copy on the CPU, with its own modes.
        with _pop_mode_temporarily():
            write_onnx(model, *given, **named)

    for module in (training, own):
        monkeypatch.setattr(module, "write_onnx", write_outside)
    monkeypatch.setattr(training, "choose", lambda name: torch.device("cpu") if name == "cpu" else AWAY)
    monkeypatch.setattr(training, "random_state", lambda _device: None)
    with StubDevice() as device:
        yield device


@pytest.mark.parametrize("algorithm", TINY)
def test_training_on_a_device_resumes_there(algorithm: str, tmp_path: Path, stub: Any) -> None:
    assert train(algorithm, tmp_path / "cpu", "--device", "cpu") == 0
    assert stub.moved == 0
    assert train(algorithm, tmp_path / "gpu", "--device", "cuda", "--stop-after", "1") == 0
    first = stub.moved
    assert first > 0
    assert train(algorithm, tmp_path / "gpu") == 0
    assert stub.moved > first
    # The stub device computes on the CPU, so the weights must be equal.
    cpu, gpu = weights(tmp_path / "cpu"), weights(tmp_path / "gpu")
    assert cpu.keys() == gpu.keys()
    assert all(torch.equal(cpu[name], gpu[name]) for name in cpu)
    for name in (f"{algorithm}.onnx", f"{algorithm}.reference.json"):
        assert (tmp_path / "cpu" / name).read_bytes() == (tmp_path / "gpu" / name).read_bytes()


@pytest.mark.parametrize("algorithm", TINY)
def test_training_on_a_gpu_resumes_to_the_same_weights(algorithm: str, tmp_path: Path) -> None:
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    assert train(algorithm, tmp_path / "whole", "--device", "cuda") == 0
    assert train(algorithm, tmp_path / "parts", "--device", "cuda", "--stop-after", "1") == 0
    assert train(algorithm, tmp_path / "parts", "--device", "cuda") == 0
    whole, parts = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert train(algorithm, tmp_path / "parts", "--device", "cpu", "--export") == 0


def test_run_resumed_on_another_device_prints_a_warning(
    tmp_path: Path, stub: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train("hrcc", tmp_path, "--device", "cpu", "--stop-after", "1") == 0
    assert capsys.readouterr().err == ""
    assert train("hrcc", tmp_path) == 0
    assert stub.moved > 0
    error = capsys.readouterr().err
    assert f"{tmp_path} was trained on cpu until here and continues on cuda:0; use --device cpu" in error
    assert error.count("\n") == 1


def test_default_device_is_a_gpu_if_available(monkeypatch: pytest.MonkeyPatch) -> None:
    from lockstep.learn.devices import choose  # noqa: PLC0415

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    assert choose("cpu").type == "cpu"
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    assert choose("auto").type == choose("cuda:0").type == "cuda"
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    with pytest.raises(ValueError, match=r"--device cuda:1: PyTorch finds 1 CUDA device here; use cpu or auto"):
        choose("cuda:1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose("auto").type == "cpu"
    with pytest.raises(ValueError, match=r"--device cuda: PyTorch finds no CUDA devices here; use cpu or auto"):
        choose("cuda")


def test_random_state_of_a_device_is_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lockstep.learn import devices, training  # noqa: PLC0415

    gpu = torch.device("cuda")
    states = [torch.arange(4, dtype=torch.uint8)]
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda _device: states[-1])
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, _device: states.append(state))
    monkeypatch.setattr(training, "choose", lambda _name: gpu)
    options = parser("hrcc").parse_args(["--output", str(tmp_path)])
    with training.Run("hrcc", options) as run:
        run.save({"step": 1})
        states.append(torch.zeros(4, dtype=torch.uint8))
        assert run.load() == {"step": 1}
    assert torch.equal(states[-1], states[0])
    assert devices.random_state(torch.device("cpu")) is None
