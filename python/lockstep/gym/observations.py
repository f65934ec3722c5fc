"""Observations: input of agents. Every preset works on all environments at once."""

from typing import Any, Protocol

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from lockstep.gym.features import Features, Values, logarithmic


class Observation(Protocol):
    """Turns features into an observation, with history if needed."""

    @property
    def space(self) -> spaces.Space[Any]:
        """The space of one environment's observation."""
        ...

    def reset(self, features: Features, mask: NDArray[np.bool_]) -> None:
        """Clear the history of the environments in ``mask``, whose new episodes begin with ``features``."""
        ...

    def observe(self, features: Features, mask: NDArray[np.bool_]) -> NDArray[np.float32]:
        """The observation of every environment; the first axis counts environments.

        Environments in ``mask`` have stepped or begun an episode since the last observation. The others have not:
        their features and observations are unchanged.
        """
        ...


class _History:
    """The latest rows of each environment, newest last."""

    def __init__(self, length: int, width: int) -> None:
        self.length = length
        self.width = width
        self.rows = np.zeros((0, length, width))

    def reset(self, count: int, mask: NDArray[np.bool_]) -> None:
        if len(self.rows) != count:
            self.rows = np.zeros((count, self.length, self.width))
        self.rows[mask] = 0.0

    def push(self, row: Values, mask: NDArray[np.bool_]) -> Values:
        if mask.all():
            self.rows[:, :-1] = self.rows[:, 1:]
            self.rows[:, -1] = row
        else:
            self.rows[mask, :-1] = self.rows[mask, 1:]
            self.rows[mask, -1] = row[mask]
        return self.rows


class BobObservation:
    """BoB's eleven values: receive rate, delay, loss and the last eight predictions (IEEE TMM 2022; released code).

    Receive rate and predictions are on a logarithmic scale from 10 kb/s (0) to 8 Mb/s (1). The delay is in seconds, at
    most 1; the loss is a share. The predictions are the rates that the agent set, oldest first.
    """

    def __init__(self) -> None:
        """An observation without history."""
        self._predictions = _History(8, 1)

    @property
    def space(self) -> spaces.Box:
        """Eleven numbers from 0 to 1."""
        return spaces.Box(0.0, 1.0, (11,), np.float32)

    def reset(self, features: Features, mask: NDArray[np.bool_]) -> None:
        """Clear the predictions."""
        self._predictions.reset(len(features), mask)

    def observe(self, features: Features, mask: NDArray[np.bool_]) -> NDArray[np.float32]:
        """The observation, shape (environments, 11)."""
        predictions = self._predictions.push(logarithmic(features.rates)[:, None], mask)[:, :, 0]
        present = [
            logarithmic(features["received_bps"]),
            np.minimum(features["delay_ms"] / 1e3, 1.0),
            np.clip(features["loss"], 0.0, 1.0),
        ]
        return np.column_stack([*present, predictions]).astype(np.float32)


class HrccObservation:
    """HRCC's six values over ten steps (its released code, without the output of GCC's detector).

    Receive rate / 6 Mb/s, delay / 1 s, loss, last rate / 6 Mb/s, steps since the queue grew / 100, and the receive rate
    at that time / 6 Mb/s. HRCC takes the last two from GCC's overuse detector. Here the queue counts as growing if the
    delay is 50 ms above the minimum of the call.
    """

    def __init__(self) -> None:
        """An observation without history."""
        self._history = _History(10, 6)
        self._since = np.zeros(0)
        self._rate = np.zeros(0)

    @property
    def space(self) -> spaces.Box:
        """Six rows of ten numbers, newest last."""
        return spaces.Box(0.0, 10.0, (6, 10), np.float32)

    def reset(self, features: Features, mask: NDArray[np.bool_]) -> None:
        """Clear the history."""
        count = len(features)
        self._history.reset(count, mask)
        if len(self._since) != count:
            self._since, self._rate = np.zeros(count), np.zeros(count)
        self._since[mask] = 0.0
        self._rate[mask] = 0.0

    def observe(self, features: Features, mask: NDArray[np.bool_]) -> NDArray[np.float32]:
        """The observation, shape (environments, 6, 10)."""
        grown = features["delay_ms"] - features["smallest_delay_ms"] > 50.0
        self._since = np.where(mask, np.where(grown, 0.0, self._since + 1.0), self._since)
        self._rate = np.where(mask & grown, features["received_bps"], self._rate)
        row = np.column_stack(
            [
                features["received_bps"] / 6e6,
                features["delay_ms"] / 1e3,
                features["loss"],
                features.rates / 6e6,
                self._since / 100.0,
                self._rate / 6e6,
            ]
        )
        return np.clip(self._history.push(row, mask).swapaxes(1, 2), 0.0, 10.0).astype(np.float32)


class CallObservation:
    """The observation of a learned controller, from the same code as in calls (``crates/control/src/learned``).

    Environments of the same calls have equal observations. They select it by :attr:`kind`.
    """

    def __init__(self, kind: str, shape: tuple[int, ...], least: float, most: float) -> None:
        """The observation ``kind`` of the Rust code, with this shape and numbers between two bounds."""
        self.kind = kind
        self._space = spaces.Box(least, most, shape, np.float32)

    @property
    def space(self) -> spaces.Box:
        """Numbers of one environment."""
        return self._space

    def reset(self, features: Features, mask: NDArray[np.bool_]) -> None:
        """Do nothing: the call itself keeps the history."""

    def observe(self, features: Features, mask: NDArray[np.bool_]) -> NDArray[np.float32]:  # noqa: ARG002
        """The observation, shape (environments, ...)."""
        if features.observed is None:
            message = f"the environment was not asked for the observation {self.kind!r}"
            raise ValueError(message)
        return features.observed


class ConcertoObservation(CallObservation):
    """Concerto's state (MobiCom 2019): four arrays per second of history, 15 reports of 4 packet groups each.

    Loss (a share), queueing delay / 1 s (at most 2), sending rate and receive throughput (logarithmic from 10 kb/s to
    8 Mb/s, at most 1.5), of the last three seconds, oldest first. Differences from the paper:
    ``lab: 2026-11-learning``.
    """

    def __init__(self, *, encoded: bool = False) -> None:
        """Three seconds of history; with ``encoded``, the encoder's bit rate replaces the sending rate."""
        super().__init__("concerto-encoded" if encoded else "concerto", (4, 3, 15, 4), 0.0, 2.0)
