"""Controllers in Python: objects, programs and policies."""

import json
import os
import runpy
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lockstep
from lockstep.controllers import Allowance, Controller, Feedback, LostPacket, PathView, Sending, Setting, answer
from lockstep.gym.features import linear

EXAMPLE = Path(__file__).parents[1] / "examples" / "own_controller.py"
CALL: dict[str, Any] = {"trace": "constant:2mbps", "clip": "generated:320x240@30", "modelled": True, "seconds": 4}


class Steady(Controller):
    """Always 600 kb/s."""

    def allowance(self, path: PathView, sending: Sending) -> float:  # noqa: ARG002
        return 600_000


class Kept(Steady):
    """Stores its arguments."""

    def __init__(self) -> None:
        self.settings: list[Setting] = []
        self.feedback: list[Feedback] = []
        self.lost: list[LostPacket] = []
        self.paths: list[PathView] = []

    def start(self, setting: Setting) -> None:
        self.settings.append(setting)

    def on_feedback(self, path: PathView, feedback: Feedback) -> None:
        self.paths.append(path)
        self.feedback.append(feedback)

    def on_loss(self, path: PathView, packets: list[LostPacket]) -> None:  # noqa: ARG002
        self.lost += packets


def test_object_and_class_control_the_same_call() -> None:
    made = lockstep.simulate(controller=Steady, **CALL)
    assert made.config["controller"] == "Steady"
    assert lockstep.simulate(controller=Steady(), **CALL) == made
    target = np.asarray(made.frames["target_bps"])
    # Limits reduce it at the start of the call.
    assert np.nanmax(target) == 600_000.0 == target[np.isfinite(target)][-1]


def test_controller_gets_setting_feedback_and_losses() -> None:
    kept = Kept()
    lockstep.simulate(controller=kept, seed=5, loss=0.05, **CALL)
    (setting,) = kept.settings
    assert (setting.seed, setting.initial_bps) == (5, 300_000)
    packets = [packet for feedback in kept.feedback for packet in feedback.packets]
    assert len(packets) > 50
    assert all(packet.arrived_ms > packet.sent_ms and packet.bytes > 0 for packet in packets)
    assert len(kept.lost) > 3
    times = [path.now_ms for path in kept.paths]
    assert times == sorted(times)
    assert kept.paths[-1].round_trip_ms == pytest.approx(40.0, abs=20.0)


def test_allowance_with_budget_bounds_the_frames() -> None:
    class Small(Controller):
        def allowance(self, path: PathView, sending: Sending) -> Allowance:  # noqa: ARG002
            return Allowance(target_bps=1e6, budget_bytes=900, pacing_interval_ms=1)

    frames = lockstep.simulate(controller=Small, **CALL).frames
    sizes = np.asarray(frames["size"])
    assert np.nanmax(sizes[10:]) <= 1_000


def test_exception_of_a_controller_keeps_its_traceback() -> None:
    class Broken(Steady):
        def on_feedback(self, path: PathView, feedback: Feedback) -> None:  # noqa: ARG002
            raise ZeroDivisionError("no rate")

    with pytest.raises(ZeroDivisionError, match="no rate") as raised:
        lockstep.simulate(controller=Broken, **CALL)
    assert "on_feedback" in [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    (note,) = raised.value.__notes__
    assert note.startswith("controller Broken, event feedback at 0.")


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (lambda: "fast", TypeError),
        (type("Wrong", (Steady,), {"allowance": lambda *_: "fast"}), TypeError),
        (type("Negative", (Steady,), {"allowance": lambda *_: -1}), ValueError),
        (7, ValueError),
        ("reno", ValueError),
    ],
)
def test_wrong_controllers_are_refused(given: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"controller|allowance"):
        lockstep.simulate(controller=given, **CALL)


def test_both_directions_need_two_controllers() -> None:
    assert lockstep.simulate(controller=Steady, two_way=True, **CALL).scores["opposite"] is not None
    with pytest.raises(ValueError, match="needs two"):
        lockstep.simulate(controller=Steady(), two_way=True, **CALL)


def test_answers_name_the_event_of_an_error() -> None:
    hello = {"event": "hello", "version": 1, "payload_bytes": 1200, "frame_interval_ms": 33.3, "initial_bps": 300_000}
    hello |= {"least_bps": 30_000, "most_bps": 20_000_000, "latency": "balanced", "seed": 1}
    assert answer(Steady(), json.dumps(hello)) == "{}"
    broken = type("Broken", (Steady,), {"start": lambda *_: 1 / 0})()
    with pytest.raises(ZeroDivisionError) as raised:
        answer(broken, json.dumps(hello))
    assert raised.value.__notes__ == ["controller Broken, event hello"]


@pytest.mark.skipif(sys.platform == "win32", reason="scripts are not executable")
def test_program_and_object_control_the_same_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "mine"
    script.write_text(f"#!{sys.executable}\nimport runpy\nrunpy.run_path({str(EXAMPLE)!r}, run_name='__main__')\n")
    script.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    program = lockstep.simulate(controller=f"program:{script}", **CALL)
    own = lockstep.simulate(controller=runpy.run_path(str(EXAMPLE))["Mine"], **CALL)
    assert program.scores == own.scores
    assert program.frames == own.frames


def test_example_compares_controllers() -> None:
    command = [sys.executable, str(EXAMPLE), "compare"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    output = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout  # noqa: S603
    assert [line.split()[0] for line in output.splitlines()] == ["Mine", "gcc", "lockstep"]


class Policy:
    """The interface of a policy of Stable-Baselines3."""

    def __init__(self, action: Any) -> None:
        self.action = action
        self.seen: list[Any] = []

    def predict(self, observation: Any, *, deterministic: bool) -> tuple[Any, None]:
        assert deterministic
        self.seen.append(observation)
        return self.action, None


def test_policy_decides_once_a_step() -> None:
    policy = Policy(np.array([0.6], np.float32))
    call = lockstep.simulate(controller=lockstep.from_policy(policy), **CALL)
    assert 17 <= len(policy.seen) <= 26  # 4 s and the drain time, in steps of 200 ms
    assert all(observed.shape == (11,) and observed.dtype == np.float32 for observed in policy.seen)
    last = policy.seen[-1]
    assert 0.0 < last[0] < 1.0
    assert last[1] > 0.0
    assert last[-1] == pytest.approx(0.6, abs=1e-3)  # the last rate
    target = np.asarray(call.frames["target_bps"])
    assert target[np.isfinite(target)][-1] == pytest.approx(linear(np.array(0.6)), rel=1e-3)


def test_policy_of_a_ladder_sends_at_its_rung() -> None:
    policy = lockstep.from_policy(Policy(np.int64(7)), observation="hrcc", action="concerto")
    target = np.asarray(lockstep.simulate(controller=policy, **CALL).frames["target_bps"])
    assert target[np.isfinite(target)][-1] == 700_000.0


def test_policy_in_an_onnx_file_decides(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415

    weights = numpy_helper.from_array(np.zeros((11, 1), np.float32), "weights")
    bias = numpy_helper.from_array(np.array([0.5], np.float32), "bias")
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["observation", "weights", "bias"], ["action"])],
        "policy",
        [helper.make_tensor_value_info("observation", TensorProto.FLOAT, [1, 11])],
        [helper.make_tensor_value_info("action", TensorProto.FLOAT, [1, 1])],
        [weights, bias],
    )
    path = tmp_path / "policy.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    target = np.asarray(lockstep.simulate(controller=lockstep.from_policy(path), **CALL).frames["target_bps"])
    assert target[np.isfinite(target)][-1] == pytest.approx(linear(np.array(0.5)), rel=1e-3)


def test_wrong_policies_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="with `predict`"):
        lockstep.from_policy(7)
    with pytest.raises(ValueError, match=r"model='policy\.onnx'"):
        lockstep.from_policy(Policy(0), observation="concerto")
    (tmp_path / "x.onnx").write_text("not a model")
    with pytest.raises(ValueError, match="ONNX"):
        lockstep.from_policy(tmp_path / "x.onnx")
