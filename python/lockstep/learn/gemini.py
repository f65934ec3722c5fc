"""Trains Gemini's learned estimator (MMSys 2021): PPO, with GCC and its safety detector in the loop.

The estimator (``crates/control/src/learned/gemini.rs``) observes receive rate, queueing delay, loss, the last estimate
and its change. The net returns a place on the logarithmic scale from 10 kb/s to 8 Mb/s. While the detector reports an
unsafe path, GCC's estimate is used. The net does not learn from its own output then. Training begins with a clone of
GCC.
"""

import argparse

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from lockstep.gym.features import linear
from lockstep.learn import ppo
from lockstep.learn.ppo import Seen
from lockstep.learn.training import Run, train

GIVEN = 5
"""Length of the net's input; then follow GCC's estimate, and 1 if the path is safe for the learned one."""
SEEN = GIVEN + 2


class Net(nn.Module):
    """Five numbers -> one: two dense layers."""

    def __init__(self, last: nn.Module | None = None) -> None:
        """An untrained net; ``last`` is an optional module after it."""
        super().__init__()
        parts = [nn.Linear(GIVEN, 128), nn.Tanh(), nn.Linear(128, 64), nn.Tanh(), nn.Linear(64, 1)]
        self.parts = nn.Sequential(*parts, *([] if last is None else [last]))

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        """Numbers, ``(calls, 1)``."""
        out: torch.Tensor = self.parts(seen[:, :GIVEN])
        return out


class Gemini:
    """Gemini as a learner for PPO."""

    name = observation = "gemini"
    is_categorical = False
    critic_rate = 10.0
    shape: tuple[int, ...] = (SEEN,)
    reward = "bob"
    every = 1
    spread: tuple[float, float] = (0.05, 0.01)

    def __init__(self) -> None:
        """Untrained nets."""
        self.actor: nn.Module = Net(nn.Sigmoid())
        self.critic: nn.Module = Net()

    def heuristic(self, seen: Seen) -> NDArray[np.float64]:
        """GCC's estimate."""
        return linear(seen[:, GIVEN].astype(np.float64))

    def counts(self, seen: Seen) -> NDArray[np.bool_]:
        """Decisions on a safe path."""
        return seen[:, GIVEN + 1] > 0.5

    def rates(self, seen: Seen, action: NDArray[np.float64]) -> NDArray[np.float64]:
        """The net's rates on a safe path, GCC's otherwise."""
        return np.where(self.counts(seen), linear(action), self.heuristic(seen))

    def excess(self, seen: torch.Tensor, output: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Zero: every output may be used."""
        return torch.zeros_like(output)


def main(arguments: list[str] | None = None) -> int:
    """Trains; returns the exit status."""
    return train("gemini", arguments, train_in)


def train_in(run: Run, options: argparse.Namespace) -> int:
    """Trains in the folder of a run; returns the exit status."""
    learner = Gemini()
    if not ppo.train(run, options, learner, target=lambda seen: seen[:, GIVEN]):
        return 0
    card = {
        "state": "receive rate (logarithmic, 0: 10 kb/s, 1: 8 Mb/s), queueing delay (s, 1 at most), loss, the last "
        "estimate on that scale, and how it changed",
        "says": "the estimate on that scale",
    }
    path = ppo.finish(
        run, learner, options, model=learner.actor, shape=(GIVEN,), names=("seen", "place"), metadata={}, card=card
    )
    print(path)
    return 0
