"""Trains HRCC (MMSys 2021): PPO tunes the estimate of a GCC-like heuristic at every fourth decision.

The estimator (``crates/control/src/learned/hrcc.rs``) observes six signals of the last ten decisions. The net returns a
number a from 0 to 1. The heuristic's estimate is multiplied by 2^(2a - 1), and the heuristic continues from there. An
untrained net returns a half, which does not change the estimate.
"""

import argparse

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from lockstep.learn import ppo
from lockstep.learn.ppo import Seen
from lockstep.learn.training import Run, train

SHAPE = (6, 10)
ESTIMATE = 3
"""The row of the heuristic's estimates."""
UNIT_BPS = 6e6


class Net(nn.Module):
    """Sixty numbers -> one: two dense layers."""

    def __init__(self, last: nn.Module | None = None) -> None:
        """A net that returns zero; ``last`` is an optional module after it."""
        super().__init__()
        head = nn.Linear(64, 1)
        nn.init.zeros_(head.weight)
        nn.init.zeros_(head.bias)
        parts = [nn.Flatten(), nn.Linear(SHAPE[0] * SHAPE[1], 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), head]
        self.parts = nn.Sequential(*parts, *([] if last is None else [last]))

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        """Numbers, ``(calls, 1)``."""
        out: torch.Tensor = self.parts(seen)
        return out


class Hrcc:
    """HRCC as a learner for PPO."""

    name = observation = "hrcc"
    is_categorical = False
    critic_rate = 10.0
    shape: tuple[int, ...] = SHAPE
    reward = "hrcc"
    every = 4
    spread: tuple[float, float] = (0.12, 0.03)

    def __init__(self) -> None:
        """Untrained nets."""
        self.actor: nn.Module = Net(nn.Sigmoid())
        self.critic: nn.Module = Net()

    def heuristic(self, seen: Seen) -> NDArray[np.float64]:
        """The newest estimate of the heuristic, as a rate."""
        return seen[:, ESTIMATE, -1].astype(np.float64) * UNIT_BPS

    def rates(self, seen: Seen, action: NDArray[np.float64]) -> NDArray[np.float64]:
        """The tuned estimate."""
        return self.heuristic(seen) * 2.0 ** (2.0 * np.clip(action, 0.0, 1.0) - 1.0)

    def counts(self, seen: Seen) -> NDArray[np.bool_]:
        """All decisions."""
        return np.ones(len(seen), np.bool_)

    def excess(self, seen: torch.Tensor, output: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Zero: every output may be used."""
        return torch.zeros_like(output)


def main(arguments: list[str] | None = None) -> int:
    """Trains; returns the exit status."""
    return train("hrcc", arguments, train_in)


def train_in(run: Run, options: argparse.Namespace) -> int:
    """Trains in the folder of a run; returns the exit status."""
    learner = Hrcc()
    if not ppo.train(run, options, learner, target=None):
        return 0
    card = {
        "state": "receive rate / 6 Mb/s, queueing delay (s), loss, the heuristic's estimate / 6 Mb/s, decisions since "
        "overuse / 100, receive rate then / 6 Mb/s; ten decisions, newest last",
        "says": "a: every fourth decision the heuristic's estimate times 2^(2a - 1)",
    }
    path = ppo.finish(
        run, learner, options, model=learner.actor, shape=SHAPE, names=("seen", "tuning"), metadata={}, card=card
    )
    print(path)
    return 0
