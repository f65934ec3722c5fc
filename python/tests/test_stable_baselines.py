"""A policy of Stable-Baselines3, trained in the environment, as the controller of calls."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import lockstep
import lockstep.gym

stable_baselines3 = pytest.importorskip("stable_baselines3")

CALL: dict[str, Any] = {"trace": "constant:1mbps", "modelled": True, "seconds": 4.0, "seed": 1}


def test_saved_ppo_policy_controls_a_call(tmp_path: Path) -> None:
    environment = gymnasium.make("lockstep/Call-v0", action="bob")
    model = stable_baselines3.PPO("MlpPolicy", environment, n_steps=64, batch_size=32, seed=1, device="cpu")
    model.learn(total_timesteps=256)
    model.save(tmp_path / "policy.zip")
    loaded = stable_baselines3.PPO.load(tmp_path / "policy.zip", device="cpu")

    controller = lockstep.from_policy(loaded, action="bob")
    first = lockstep.simulate(controller=controller, **CALL)
    assert first.scores["frames"]["displayed"] > 0
    target = np.asarray(first.frames["target_bps"])
    decided = target[np.isfinite(target)]
    # BoB's lowest action is the middle of the logarithmic scale from 10 kb/s to 8 Mb/s.
    assert decided[-1] >= 0.99 * np.sqrt(1e4 * 8e6)
    assert decided.max() <= 8e6
    again = lockstep.simulate(controller=lockstep.from_policy(model, action="bob"), **CALL)
    assert again.frames == first.frames, "saving keeps the policy"
