"""Trains Gemini's learned estimator (MMSys 2021): PPO, with GCC and its safety detector in the loop.

The estimator (``crates/control/src/learned/gemini.rs``) sees receive rate, waiting time, loss, the last estimate and
how that changed; the net says a place on the logarithmic scale from 10 kb/s to 8 Mb/s. Where the detector says that
the path is not safe, GCC's estimate is used, and nothing is learned of what the net would have said. Training begins
at a clone of GCC, as BoB's does.
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
"""What the net is given of what is seen; then come GCC's estimate, and 1 where the learned one is safe."""
SEEN = GIVEN + 2


class Net(nn.Module):
    """Five numbers -> one: two dense layers."""

    def __init__(self, last: nn.Module | None = None) -> None:
        """A net that has not learned anything; ``last`` makes something else of what it says."""
        super().__init__()
        parts = [nn.Linear(GIVEN, 128), nn.Tanh(), nn.Linear(128, 64), nn.Tanh(), nn.Linear(64, 1)]
        self.parts = nn.Sequential(*parts, *([] if last is None else [last]))

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        """Numbers, ``(calls, 1)``."""
        out: torch.Tensor = self.parts(seen[:, :GIVEN])
        return out


class Gemini:
    """Gemini for PPO."""

    name = "gemini"
    shape: tuple[int, ...] = (SEEN,)
    reward = "bob"
    every = 1
    spread: tuple[float, float] = (0.05, 0.01)

    def __init__(self) -> None:
        """Nets that have not learned anything."""
        self.actor: nn.Module = Net(nn.Sigmoid())
        self.critic: nn.Module = Net()

    def heuristic(self, seen: Seen) -> NDArray[np.float64]:
        """GCC's estimate."""
        return linear(seen[:, GIVEN].astype(np.float64))

    def counts(self, seen: Seen) -> NDArray[np.bool_]:
        """Where the path is safe."""
        return seen[:, GIVEN + 1] > 0.5

    def rates(self, seen: Seen, action: NDArray[np.float64]) -> NDArray[np.float64]:
        """The net's where the path is safe, GCC's elsewhere."""
        return np.where(self.counts(seen), linear(action), self.heuristic(seen))

    def strays(self, seen: torch.Tensor, middle: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Nothing is beyond what is used."""
        return torch.zeros_like(middle)


def main(arguments: list[str] | None = None) -> int:
    """Trains; gives the exit status."""
    return train("gemini", arguments, train_in)


def train_in(run: Run, options: argparse.Namespace) -> int:
    """The same, in the folder of a run."""
    learner = Gemini()
    if not ppo.train(run, options, learner, target=lambda seen: seen[:, GIVEN]):
        return 0
    card = {
        "state": "receive rate (logarithmic, 0: 10 kb/s, 1: 8 Mb/s), waiting time (s, 1 at most), loss, the last "
        "estimate on that scale, and how it changed",
        "says": "the estimate on that scale",
    }
    path = ppo.finish(
        run, learner, options, model=learner.actor, shape=(GIVEN,), names=("seen", "place"), metadata={}, card=card
    )
    print(path)
    return 0
