"""Rewards of agents. Every preset works on all environments at once."""

from typing import Protocol

import numpy as np

from lockstep.gym.features import Features, Values, logarithmic


class Reward(Protocol):
    """Turns features into rewards."""

    def reward(self, features: Features) -> Values:
        """The reward of every environment for the step with these features, shape ``(environments,)``."""
        ...


class AlphaRtcReward:
    """Reward of AlphaRTC's gym example, on which BoB's training is based: rate - delay - loss, about -2 to 1.

    The receive rate is on a logarithmic scale from 10 kb/s (0) to 8 Mb/s (1), the delay in seconds (at most 1), the
    loss a share.
    """

    def reward(self, features: Features) -> Values:
        """The rewards."""
        delay = np.minimum(features["delay_ms"] / 1e3, 1.0)
        rewards: Values = logarithmic(features["received_bps"]) - delay - features["loss"]
        return rewards


class HrccReward:
    """HRCC's reward: 0.6 ln(4 R + 1) - D - 10 L; receive rate R in Mb/s, delay D in seconds, loss L."""

    def reward(self, features: Features) -> Values:
        """The rewards."""
        rate = features["received_bps"] / 1e6
        rewards: Values = 0.6 * np.log(4.0 * rate + 1.0) - features["delay_ms"] / 1e3 - 10.0 * features["loss"]
        return rewards


class QualityReward:
    """Concerto's objective: received rate relative to the link's capacity, less delay and loss.

    ``a * received / capacity - b * (delay - smallest delay) / 100 ms - c * loss``. The weights are Lockstep's own:
    Concerto learns from an expert with known capacity, not from a reward.
    """

    def __init__(self, rate: float = 1.0, delay: float = 0.5, loss: float = 2.0) -> None:
        """A reward with the weights of rate, delay and loss."""
        self.rate = rate
        self.delay = delay
        self.loss = loss

    def reward(self, features: Features) -> Values:
        """The rewards."""
        used = np.minimum(features["received_bps"] / np.maximum(features["capacity_bps"], 1e4), 1.0)
        waited = (features["delay_ms"] - features["smallest_delay_ms"]) / 100.0
        rewards: Values = self.rate * used - self.delay * np.clip(waited, 0.0, 10.0) - self.loss * features["loss"]
        return rewards
