"""Runs policies of :mod:`lockstep.gym` as controllers of calls."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from lockstep._lockstep import OnnxModel
from lockstep.controllers import Controller, Feedback, LostPacket, Packet, PathView, Sending, Setting
from lockstep.gym.actions import Action
from lockstep.gym.environment import ACTIONS, OBSERVATIONS, preset
from lockstep.gym.features import FEATURES, Features
from lockstep.gym.observations import CallObservation, Observation

_COLUMNS = {name: column for column, name in enumerate(FEATURES)}
_ALL = np.ones(1, np.bool_)


class PolicyController(Controller):
    """Asks a policy once a step; the target stays until the next step."""

    def __init__(  # noqa: PLR0913 -- the settings of the environment
        self,
        predict: Callable[[NDArray[np.float32]], Any],
        *,
        observation: str | Observation = "bob",
        action: str | Action = "rate",
        step_ms: float = 200.0,
        initial_bps: float = 300_000,
        bounds_bps: tuple[float, float] = (10_000, 8_000_000),
    ) -> None:
        """A controller with the policy ``predict(observation)``, in an environment of these settings."""
        self._predict = predict
        self._observation: Observation = preset(OBSERVATIONS, observation, "observation")
        self._action: Action = preset(ACTIONS, action, "action")
        if isinstance(self._observation, CallObservation):
            kind = self._observation.kind
            message = (
                f"observation {kind!r}: only Lockstep's own controllers have it; export the policy and name its file: "
                f"lockstep.simulate(controller={kind!r}, model='policy.onnx')"
            )
            raise ValueError(message)
        self._step_ms = step_ms
        self._initial_bps = float(initial_bps)
        self._bounds_bps = bounds_bps
        self._begin()

    def _begin(self) -> None:
        self._rate = self._initial_bps
        self._from_ms = 0.0
        self._packets: list[Packet] = []
        self._lost = 0
        self._delay_ms = 0.0
        self._is_begun = False

    def start(self, setting: Setting) -> None:
        """Reset the state of the last call."""
        del setting
        self._begin()

    def on_feedback(self, path: PathView, feedback: Feedback) -> None:
        """Collect the packets that arrived in this step."""
        del path
        self._packets += feedback.packets

    def on_loss(self, path: PathView, packets: list[LostPacket]) -> None:
        """Count the packets that were lost in this step."""
        del path
        self._lost += len(packets)

    def _features(self, path: PathView) -> Features:
        """The features since the last decision that a sender knows; the others are zero."""
        seconds = (path.now_ms - self._from_ms) / 1e3
        # The clocks of both ends differ, so the one-way delay is half the base round-trip time plus queueing.
        base_ms = (path.base_round_trip_ms or 0.0) / 2.0
        delays = [base_ms + packet.queued_ms for packet in self._packets]
        if delays:
            self._delay_ms = float(np.mean(delays))
        due = len(self._packets) + self._lost
        known = {
            "time_s": path.now_ms / 1e3,
            "target_bps": self._rate,
            "received_bps": 8.0 * sum(packet.bytes for packet in self._packets) / seconds if seconds else 0.0,
            "packets": float(len(self._packets)),
            "loss": self._lost / due if due else 0.0,
            "delay_ms": self._delay_ms,
            "largest_delay_ms": max(delays, default=0.0),
            "smallest_delay_ms": base_ms,
            "round_trip_ms": path.round_trip_ms or 0.0,
        }
        values = np.zeros((1, len(FEATURES)))
        for name, value in known.items():
            values[0, _COLUMNS[name]] = value
        return Features(values, np.array([self._rate]))

    def allowance(self, path: PathView, sending: Sending) -> float:
        """The policy's rate, updated when a step has passed."""
        del sending
        if path.now_ms - self._from_ms >= self._step_ms or not self._is_begun:
            features = self._features(path)
            if not self._is_begun:
                self._observation.reset(features, _ALL)
            self._is_begun = True
            observed = self._observation.observe(features, _ALL)
            decided = self._predict(observed[0])
            rates = self._action.rates(np.asarray(decided)[None])
            self._rate = float(np.clip(rates[0], *self._bounds_bps))
            self._from_ms = path.now_ms
            self._packets, self._lost = [], 0
        return self._rate


def _predictor(model: Any, action: Action) -> Callable[[NDArray[np.float32]], Any]:
    if isinstance(model, str | os.PathLike):
        network = OnnxModel(Path(model).read_bytes())
        is_choice = isinstance(action.space, spaces.Discrete)

        def run(observed: NDArray[np.float32]) -> Any:
            output = np.asarray(network.run([np.ascontiguousarray(observed).reshape(-1)])[0])
            if is_choice:
                # A network that samples returns one number; one that scores the choices returns one for each.
                return int(output[0]) if output.size == 1 else int(output.argmax())
            return output

        return run
    if not callable(getattr(model, "predict", None)):
        message = f"model: expected an ONNX file or a policy with `predict`, found {model!r}"
        raise TypeError(message)
    return lambda observed: model.predict(observed, deterministic=True)[0]


def from_policy(model: Any, *, action: str | Action = "rate", **setting: Any) -> PolicyController:
    """A controller that runs a policy trained in :mod:`lockstep.gym`.

    :param model: A policy of Stable-Baselines3, or an object with its ``predict(observation, deterministic=True)``; or
        an ONNX file whose only input is the observation and whose first output is the action.
    :param action: As for the environment. So are ``observation``, ``step_ms``, ``initial_bps`` and ``bounds_bps``.

    The policy sees only values that a sender knows: delays and losses of its packets, no pictures and no capacity.
    """
    chosen: Action = preset(ACTIONS, action, "action")
    return PolicyController(_predictor(model, chosen), action=chosen, **setting)
