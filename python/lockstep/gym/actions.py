"""Actions: conversion of an agent's action to a bit rate. Every preset works on all environments at once."""

from typing import Any, Protocol

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from lockstep.gym.features import Values, linear


class Action(Protocol):
    """Turns actions into bit rates."""

    @property
    def space(self) -> spaces.Space[Any]:
        """The space of one environment's action."""
        ...

    def rates(self, actions: NDArray[Any]) -> Values:
        """The rates, bit/s, of the actions of all environments; the first axis counts environments.

        Raises:
            ValueError: If an action is not in the space.

        """
        ...


class LogarithmicRate:
    """A number from 0 to 1 for a rate from ``least_bps`` to ``most_bps`` on a logarithmic scale."""

    def __init__(self, least_bps: float = 1e4, most_bps: float = 8e6) -> None:
        """Rates between two bounds, bit/s; the defaults are those of BoB and AlphaRTC."""
        self.least_bps = least_bps
        self.most_bps = most_bps

    @property
    def space(self) -> spaces.Box:
        """One number from 0 to 1."""
        return spaces.Box(0.0, 1.0, (1,), np.float32)

    def rates(self, actions: NDArray[Any]) -> Values:
        """The rates, bit/s."""
        return linear(np.asarray(actions, np.float64).reshape(len(actions)), self.least_bps, self.most_bps)


class GivenRate:
    """The rate itself, bit/s."""

    @property
    def space(self) -> spaces.Box:
        """One number."""
        return spaces.Box(0.0, np.inf, (1,), np.float32)

    def rates(self, actions: NDArray[Any]) -> Values:
        """The rates, bit/s."""
        rates: Values = np.asarray(actions, np.float64).reshape(len(actions))
        return rates


class BobAction:
    """BoB's action: a number p from 0 to 1.

    It selects the place min(1, 2^(2p - 1)) on the logarithmic scale from 10 kb/s to 8 Mb/s.
    BoB's released code interprets the sampled probability in this way; the paper describes four ranges. The lowest
    rate is the middle of the scale, 283 kb/s. All p from 0.5 on give 8 Mb/s.
    """

    @property
    def space(self) -> spaces.Box:
        """One number from 0 to 1."""
        return spaces.Box(0.0, 1.0, (1,), np.float32)

    def rates(self, actions: NDArray[Any]) -> Values:
        """The rates, bit/s."""
        probabilities = np.clip(np.asarray(actions, np.float64).reshape(len(actions)), 0.0, 1.0)
        return linear(2.0 ** (2.0 * probabilities - 1.0))


class LadderAction:
    """One of the given rates: Concerto's controller classifies and does not regress (MobiCom 2019)."""

    def __init__(self, rates_bps: list[float] | None = None) -> None:
        """A ladder of rates, bit/s; by default the paper's 26 rates from 0 to 2.5 Mb/s.

        The environment's lowest rate replaces lower ones, such as 0.

        Raises:
            ValueError: If the list is empty, or a rate is negative or not finite.

        """
        rates = [1e5 * step for step in range(26)] if rates_bps is None else rates_bps
        self._rates = np.asarray(rates, np.float64)
        if (
            self._rates.ndim != 1
            or len(self._rates) == 0
            or not (np.isfinite(self._rates) & (self._rates >= 0.0)).all()
        ):
            message = f"invalid ladder {rates}; expected at least one rate, each at least 0 bit/s"
            raise ValueError(message)

    @classmethod
    def logarithmic(cls, count: int = 26, least_bps: float = 5e4, most_bps: float = 8e6) -> "LadderAction":
        """``count`` rates from ``least_bps`` to ``most_bps`` with equal ratios, rounded to whole bits per second."""
        return cls([float(round(rate)) for rate in np.geomspace(least_bps, most_bps, count)])

    @property
    def rates_bps(self) -> Values:
        """The rates, bit/s, in the given order."""
        return self._rates

    @property
    def space(self) -> spaces.Discrete[np.int64]:
        """The index of a rate."""
        return spaces.Discrete(len(self._rates))

    def rates(self, actions: NDArray[Any]) -> Values:
        """The rates, bit/s."""
        indices = np.asarray(actions).reshape(len(actions))
        wrong = ~np.isin(indices, np.arange(len(self._rates)))
        if wrong.any():
            environment = int(np.flatnonzero(wrong)[0])
            message = (
                f"invalid action {indices[environment]} of environment {environment}; expected "
                f"0 to {len(self._rates) - 1}"
            )
            raise ValueError(message)
        chosen: Values = self._rates[indices.astype(np.intp)]
        return chosen
