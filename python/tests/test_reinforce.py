"""Reinforcement of Lockstep's own controller. All of it takes PyTorch (`make test-learn`)."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_trainings import train

from lockstep._lockstep import lesson_names
from lockstep.simulation import simulate

torch: Any = pytest.importorskip("torch", reason="waits for PyTorch: `make test-learn`")
pytest.importorskip("onnx", reason="waits for ONNX: `make test-learn`")

OBSERVATIONS, HORIZONS, _, STATE, ADJUSTMENT = lesson_names()


def tried(generator: np.random.Generator, ssim_db: Any, *, calls: int = 16, pictures: int = 40) -> Any:
    """Calls in which what is tried changes with every picture; ``ssim_db`` says what comes of it."""
    from lockstep.learn.reinforce import Tried  # noqa: PLC0415

    def array(width: int) -> Any:
        return generator.standard_normal((calls, pictures, width), dtype=np.float32)

    seen, attempts = array(len(OBSERVATIONS)), 0.5 * array(ADJUSTMENT)
    outcomes = np.ones((calls, pictures, 4), np.float32)
    outcomes[..., 2] = ssim_db(seen, attempts)
    outcomes[..., 3] = 0.1
    outcomes[:, -3:] = np.nan  # nothing came of the last ones any more
    return Tried([seen, array(len(HORIZONS)), array(STATE), attempts, outcomes])


def test_what_pays_off_is_said_more_often_and_only_where_it_does() -> None:
    from lockstep.learn import lockstep as own  # noqa: PLC0415
    from lockstep.learn.reinforce import Reinforcement  # noqa: PLC0415

    torch.manual_seed(1)
    draw = np.random.default_rng(1)
    learner = Reinforcement(own.Net(torch.zeros(own.OBSERVED), torch.ones(own.OBSERVED)), 3e-3)

    def pays(seen: Any, attempts: Any) -> Any:
        return 15.0 + 4.0 * np.sign(seen[..., 0]) * attempts[..., 1]

    for _ in range(12):
        learner.improve(tried(draw, pays), 0.5, policy_too=True)
    after = tried(draw, pays)
    with torch.no_grad():
        said = learner.policy(learner.inputs(after))[..., 1]
    pays_off = after.seen[..., 0] > 0.3
    assert float(said[pays_off].mean()) > 0.1
    assert float(said[after.seen[..., 0] < -0.3].mean()) < -0.1


def test_what_sprout_decided_or_what_was_held_teaches_the_rule_nothing() -> None:
    one = tried(np.random.default_rng(2), lambda _seen, attempts: 15.0 + attempts[..., 1])
    assert bool(one.counts[:, :-3].all())
    assert not bool(one.counts[:, -3:].any())
    arrays = [one.seen, one.right, one.remembered, one.tried.clone(), torch.ones(16, 40, 4)]
    arrays[3][:, 1:4] = arrays[3][:, :1]
    arrays[4][0, :, 0] = 0.0
    counts = type(one)([array.numpy() for array in arrays]).counts
    assert not bool(counts[0].any())
    assert counts[1, :6].tolist() == [True, False, False, False, True, True]


def test_a_net_departs_from_no_rule_until_that_is_learned() -> None:
    from lockstep.learn import lockstep as own  # noqa: PLC0415

    net = own.Net(torch.zeros(own.OBSERVED), torch.ones(own.OBSERVED))
    given = torch.randn(3, own.OBSERVED + own.STATE)
    before = net(given)
    net.add_policy()
    after = net(given)
    assert torch.equal(after[:, : before.shape[1]], before)
    assert torch.equal(after[:, before.shape[1] :], torch.zeros(3, ADJUSTMENT))
    again = own.Net(torch.zeros(own.OBSERVED), torch.ones(own.OBSERVED))
    again.load(net.state_dict())
    assert torch.equal(again(given), after)


def test_a_model_with_new_weights_in_it_is_as_one_that_is_exported_anew() -> None:
    import onnx  # noqa: PLC0415
    from onnx import numpy_helper  # noqa: PLC0415

    from lockstep.learn import lockstep as own  # noqa: PLC0415

    net = own.Net(torch.zeros(own.OBSERVED), torch.ones(own.OBSERVED))
    policy = net.add_policy()
    exported = own.Exported(net)
    for weights in policy.parameters():
        torch.nn.init.normal_(weights)

    def weights_of(model: bytes) -> dict[str, list[float]]:
        graph = onnx.load_from_string(model).graph
        return {one.name: numpy_helper.to_array(one).ravel().tolist() for one in graph.initializer}

    assert weights_of(exported.of(net, {"lockstep.seed": "1"})) == weights_of(
        own.model_bytes(net, {"lockstep.seed": "1"})
    )


def test_a_training_that_was_ended_between_updates_goes_on_to_the_same_model(tmp_path: Path) -> None:
    assert train("lockstep", tmp_path / "whole") == 0
    # Two rounds, and three of the five updates.
    assert train("lockstep", tmp_path / "parts", "--stop-after", "5") == 0
    assert not (tmp_path / "parts" / "lockstep.onnx").exists()
    assert train("lockstep", tmp_path / "parts") == 0
    models = [tmp_path / name / "lockstep.onnx" for name in ("whole", "parts")]
    assert models[0].read_bytes() == models[1].read_bytes()
    assert json.loads((tmp_path / "whole" / "lockstep.json").read_text())["setting"]["reinforce"] == 5
    made = simulate("constant:1mbps", controller="lockstep", model=models[0], seconds=5, modelled=True)
    assert made.scores["qoe_d"] > 3.0
