"""Trains BoB's learned estimator (IEEE TMM 2022): PPO, with its heuristic and its adaptive selector in the loop.

The estimator (``crates/control/src/learned/bob.rs``) observes eleven numbers every 200 ms: receive rate, queueing
delay, loss, and eight estimates. The newest estimate is the heuristic's for this moment. The net returns a probability
for each of four ranges of rates. The estimate is their mean on the logarithmic scale from 10 kb/s to 8 Mb/s. If it
differs from the heuristic's by 30 % of their mean or more, the selector uses the heuristic's.

Training begins with a clone of a rule that climbs faster than the heuristic. An untrained policy is rarely within the
30 %, so the selector would use none of its actions. A clone of the heuristic stays as slow as the heuristic.

``--as-published`` trains BoB as the paper prints it, from scratch (:class:`PublishedBob`). The actions are four ranges
of 0.01 to 8 Mb/s. The heuristic is that of the paper's text. Net and numbers are the paper's, too.

The sections are the net, the selector, the initial policy and the run. :mod:`lockstep.learn.ppo` contains PPO and the
calls. Differences between paper, published code and this module: ``lab: 2026-11-learning``.
"""

import argparse
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from lockstep.gym.features import linear, logarithmic
from lockstep.learn import ppo
from lockstep.learn.ppo import Seen
from lockstep.learn.training import Run, train

SEEN = 11
ESTIMATES = 8
RANGES = 4
WIDTHS = (514, 320, 64)
"""Widths of the dense layers."""
PUBLISHED_RANGES_BPS = (10_000, 2_000_000, 4_000_000, 6_000_000, 8_000_000)
"""Ends of the paper's four ranges of actions, bit/s."""
PUBLISHED_FILTERS, PUBLISHED_KERNEL, PUBLISHED_SLOPE = 64, 3, 0.5
"""Filters and kernel of the paper's convolution, printed as 3x3, and slope of its rectifiers."""


# --- The net --------------------------------------------------------------------------------------------------------


class Body(nn.Module):
    """Eleven numbers -> output of the last dense layer, with a convolution or an LSTM over the estimates first."""

    def __init__(self, history: str, dropout: float) -> None:
        """An untrained body; ``history`` is ``conv`` or ``lstm``."""
        super().__init__()
        self.history = history
        if history == "lstm":
            self.memory: nn.Module = nn.LSTM(1, 32, batch_first=True)
            width = 32
        else:
            self.memory = nn.Conv1d(1, 16, 4)
            width = 16 * (ESTIMATES - 3)
        first, second, third = WIDTHS
        self.dense = nn.Sequential(
            nn.Linear(SEEN - ESTIMATES + ESTIMATES + width, first),
            nn.LeakyReLU(),
            nn.Dropout(dropout),
            nn.Linear(first, second),
            nn.LeakyReLU(),
            nn.Dropout(dropout),
            nn.Linear(second, third),
            nn.LeakyReLU(),
        )

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        """States ``(calls, 11)`` -> ``(calls, 64)``."""
        estimates = seen[:, SEEN - ESTIMATES :]
        if self.history == "lstm":
            remembered = self.memory(estimates.unsqueeze(-1))[1][0].squeeze(0)
        else:
            remembered = nn.functional.leaky_relu(self.memory(estimates.unsqueeze(1))).flatten(1)
        out: torch.Tensor = self.dense(torch.cat([seen, remembered], -1))
        return out


class PublishedBody(nn.Module):
    """The paper's net up to its last layer: a convolution over the estimates, dense layers over the other numbers.

    The dense layers come before the concatenation, so the estimates bypass them.
    """

    def __init__(self, dropout: float) -> None:
        """An untrained body."""
        super().__init__()
        self.memory = nn.Conv1d(1, PUBLISHED_FILTERS, PUBLISHED_KERNEL)
        layers: list[nn.Module] = []
        for given, width in zip((SEEN - ESTIMATES, *WIDTHS), WIDTHS, strict=False):
            layers += [nn.Linear(given, width), nn.LeakyReLU(PUBLISHED_SLOPE), nn.Dropout(dropout)]
        self.dense = nn.Sequential(*layers)
        self.width = WIDTHS[-1] + PUBLISHED_FILTERS * (ESTIMATES - PUBLISHED_KERNEL + 1)

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        """States ``(calls, 11)`` -> ``(calls, width)``."""
        estimates = self.memory(seen[:, SEEN - ESTIMATES :].unsqueeze(1))
        remembered = nn.functional.leaky_relu(estimates, PUBLISHED_SLOPE).flatten(1)
        return torch.cat([self.dense(seen[:, : SEEN - ESTIMATES]), remembered], -1)


class Actor(nn.Module):
    """Exported net: a probability for each of the four ranges, the slowest first."""

    def __init__(self, body: nn.Module, width: int) -> None:
        """An untrained actor with ``width`` outputs of ``body``."""
        super().__init__()
        self.body = body
        self.ranges = nn.Linear(width, RANGES)

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        """Probabilities, ``(calls, 4)``."""
        return nn.functional.softmax(self.ranges(self.body(seen)), -1)


class Place(nn.Module):
    """Mean of the probabilities: a place on the scale of rates, 0 to 1."""

    def __init__(self, actor: Actor) -> None:
        """The mean for an actor."""
        super().__init__()
        self.probabilities = actor
        self.register_buffer("ends", torch.linspace(0.0, 1.0, RANGES))

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        """Places, ``(calls, 1)``."""
        place: torch.Tensor = (self.probabilities(seen) * self.ends).sum(-1, keepdim=True)
        return place


# --- The selector ---------------------------------------------------------------------------------------------------


def select(learned: NDArray[np.float64], heuristic: NDArray[np.float64], threshold: float) -> NDArray[np.float64]:
    """``learned``, or ``heuristic`` where the two differ by at least ``threshold`` of their mean."""
    return np.where(np.abs(learned - heuristic) >= threshold * (learned + heuristic) / 2.0, heuristic, learned)


def reach(threshold: float) -> float:
    """Largest distance from the heuristic's estimate, on the scale of rates, that the selector accepts."""
    return float(logarithmic(np.array([1e4 * (2.0 + threshold) / max(2.0 - threshold, 1e-9)]))[0])


# --- The initial policy ----------------------------------------------------------------------------------------

RULE = {"climb": 0.035, "free": 0.01, "full": 0.05, "drop": 0.6, "most": 1.5}
"""Constants of :func:`careful`, best of about sixty rules on a quarter of the training traces.

``climb``: step up on the scale of rates; 0.035 is a quarter more. ``free``: queueing delay (s) below which the rule
climbs. ``full``: queueing delay (s) above which it drops. ``drop``: share of the receive rate after a drop. ``most``:
largest multiple of the receive rate after a climb.
"""


def careful(seen: Seen, threshold: float) -> NDArray[np.float64]:
    """A heuristic rule for the receiver, within the range of the selector: places on the scale of rates.

    It climbs from the heuristic's estimate while the queueing delay is short. It drops below the receive rate while the
    delay is long. In between it keeps the heuristic's estimate.
    """
    received, waited, heuristic = (seen[:, column].astype(np.float64) for column in (0, 1, -1))
    most, least = (received + np.log(RULE[name]) / np.log(8e6 / 1e4) for name in ("most", "drop"))
    climbing = np.minimum(heuristic + RULE["climb"], np.maximum(most, heuristic))
    rest = np.where(waited < RULE["full"], heuristic, np.minimum(heuristic, least))
    furthest = 0.95 * reach(threshold)
    place: NDArray[np.float64] = np.where(waited < RULE["free"], climbing, rest)
    return np.clip(place, heuristic - furthest, heuristic + furthest)


class Bob:
    """BoB as a learner for PPO."""

    name = observation = "bob"
    is_categorical = False
    critic_rate = 10.0
    shape: tuple[int, ...] = (SEEN,)
    reward = "bob"
    every = 1
    # A tenth of the scale is a factor of two. The selector accepts a 22nd of the scale.
    spread: tuple[float, float] = (0.025, 0.006)

    def __init__(self, options: argparse.Namespace) -> None:
        """Untrained nets."""
        self.threshold = options.threshold
        self.actor: nn.Module = Place(Actor(Body(options.history, options.dropout), WIDTHS[-1]))
        self.critic: nn.Module = nn.Sequential(Body(options.history, 0.0), nn.Linear(WIDTHS[-1], 1))

    def heuristic(self, seen: Seen) -> NDArray[np.float64]:
        """The newest of the estimates, as rates."""
        return linear(seen[:, -1].astype(np.float64))

    def rates(self, seen: Seen, action: NDArray[np.float64]) -> NDArray[np.float64]:
        """The rates that the selector uses."""
        return select(linear(action), self.heuristic(seen), self.threshold)

    def counts(self, seen: Seen) -> NDArray[np.bool_]:
        """All decisions: the net also learns from estimates that the selector rejects."""
        return np.ones(len(seen), np.bool_)

    def excess(self, seen: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
        """Distance beyond nine tenths of the selector's range: no sampled action there would be used."""
        return ((output - seen[:, -1]).abs() - 0.9 * reach(self.threshold)).clamp(min=0.0)


class PublishedBob(Bob):
    """BoB as the paper prints it: the action is one of four ranges, and the estimate is the centre of the range.

    The paper prints no initial policy, so the net begins untrained. It prints one learning rate, so the critic has it,
    too.
    """

    observation = "bob-printed"
    is_categorical = True
    critic_rate = 1.0

    def __init__(self, options: argparse.Namespace) -> None:
        """Untrained nets."""
        super().__init__(options)
        body, judge = PublishedBody(options.dropout), PublishedBody(0.0)
        self.actor = Actor(body, body.width)
        self.critic = nn.Sequential(judge, nn.Linear(judge.width, 1))

    def rates(self, seen: Seen, action: NDArray[np.float64]) -> NDArray[np.float64]:
        """The centres of the chosen ranges where the selector accepts them."""
        ends = np.array(PUBLISHED_RANGES_BPS, np.float64)
        centres = (ends[:-1] + ends[1:]) / 2.0
        return select(centres[action.astype(np.intp)], self.heuristic(seen), self.threshold)

    def excess(self, seen: torch.Tensor, output: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Zero: every range is an action."""
        return torch.zeros_like(output)


# --- The run --------------------------------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    """Trains; returns the exit status."""
    return train("bob", arguments, train_in)


def train_in(run: Run, options: argparse.Namespace) -> int:
    """Trains in the folder of a run; returns the exit status."""
    if options.episodes is not None:
        options.updates = ppo.updates_of(options)
    learner = PublishedBob(options) if options.as_published else Bob(options)

    def begin(seen: Seen) -> NDArray[np.floating[Any]]:
        return careful(seen, options.threshold) if options.begin == "rule" else seen[:, -1]

    if not ppo.train(run, options, learner, target=begin if options.clone else None):
        return 0
    actor = learner.actor if options.as_published else learner.actor.probabilities
    assert isinstance(actor, Actor)  # noqa: S101
    metadata = {"lockstep.selector_threshold": str(options.threshold)}
    says = (
        "a probability for each of four ranges, whose ends are 0, 1/3, 2/3, 1 of that scale; the mean is the estimate"
    )
    if options.as_published:
        ranges = ",".join(str(end) for end in PUBLISHED_RANGES_BPS)
        metadata |= {"lockstep.ranges_bps": ranges, "lockstep.heuristic": "printed"}
        says = "a probability for each of the paper's four ranges; the centre of the likeliest is the estimate"
    card = {
        "state": "receive rate, queueing delay (s, 1 at most), loss (share), eight estimates: seven used, oldest "
        "first, and the heuristic's newest; rates logarithmic, 0: 10 kb/s, 1: 8 Mb/s",
        "says": says,
    }
    path = ppo.finish(
        run,
        learner,
        options,
        model=actor,
        shape=(SEEN,),
        names=("seen", "probabilities"),
        metadata=metadata,
        card=card,
    )
    print(path)
    return 0
