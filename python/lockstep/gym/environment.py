"""The environments: a single call, and a vector of calls."""

import os
import threading
from collections.abc import Sequence
from typing import Any, TypeVar

import gymnasium
import numpy as np
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from lockstep._lockstep import MAX_ENVIRONMENTS, VectorEnvironment
from lockstep.arguments import MAX_UINT32, MAX_UINT64, numbers, whole, whole_pair
from lockstep.gym.actions import Action, BobAction, LadderAction, LogarithmicRate
from lockstep.gym.features import FEATURES, Features, Values
from lockstep.gym.observations import BobObservation, CallObservation, ConcertoObservation, HrccObservation, Observation
from lockstep.gym.rewards import AlphaRtcReward, HrccReward, QualityReward, Reward
from lockstep.threads import MAX_THREADS

OBSERVATIONS: dict[str, type[Observation]] = {
    "bob": BobObservation,
    "concerto": ConcertoObservation,
    "hrcc": HrccObservation,
}
"""Observation presets by name."""
ACTIONS: dict[str, type[Action]] = {"rate": LogarithmicRate, "bob": BobAction, "concerto": LadderAction}
"""Action presets by name."""
REWARDS: dict[str, type[Reward]] = {"bob": AlphaRtcReward, "concerto": QualityReward, "hrcc": HrccReward}
"""Reward presets by name."""

DEFAULT_TRACES: tuple[str, ...] = tuple(
    f"cellular:mean={mean}mbps,seed={seed}" for mean in (1, 2, 4) for seed in (1, 2, 3)
)
"""Nine generated cellular paths."""
MAX_BPS = 10**12
"""Largest bit rate, that of the fastest trace."""


_Preset = TypeVar("_Preset")


def preset(presets: dict[str, type[_Preset]], chosen: str | _Preset, of: str) -> _Preset:
    """The preset of this name, or the given object."""
    if not isinstance(chosen, str):
        return chosen
    if chosen not in presets:
        message = f"unknown {of} {chosen!r}; expected one of {', '.join(presets)}"
        raise ValueError(message)
    return presets[chosen]()


_Text = str | os.PathLike[str]


def _list(given: _Text | Sequence[_Text]) -> list[str]:
    """One or many paths as a list. A string is one path, although it is a sequence of characters."""
    many = [given] if isinstance(given, str | os.PathLike) else given
    return [os.fspath(one) for one in many]


class _Calls:
    """Calls in Rust with the presets."""

    def __init__(  # noqa: PLR0913 -- everything has a name and a default
        self,
        count: int,
        *,
        observation: str | Observation = "bob",
        action: str | Action = "rate",
        reward: str | Reward = "bob",
        place: str = "receiver",
        traces: _Text | Sequence[_Text] = DEFAULT_TRACES,
        random_start: bool = True,
        step_ms: float = 200.0,
        episode_steps: int = 300,
        delay_ms: tuple[float, float] = (10.0, 60.0),
        queue_packets: tuple[int, int] = (20, 256),
        loss: tuple[float, float] = (0.0, 0.0),
        shared: float = 0.0,
        cross_traffic: _Text | Sequence[_Text] = ("tcp", "gcc"),
        initial_bps: float = 300_000,
        bounds_bps: tuple[float, float] = (10_000, 8_000_000),
        feedback_ms: float | Sequence[float] | None = None,
        codec: str = "functional",
        model: str | None = None,
        clips: str | Sequence[str] | None = None,
        size: tuple[int, int] = (1280, 720),
        frames_per_second: float = 30.0,
        threads: int = 0,
    ) -> None:
        if place not in ("receiver", "sender"):
            message = f"place: expected 'receiver' or 'sender', found {place!r}"
            raise ValueError(message)
        if not 0 <= threads <= MAX_THREADS:
            message = f"threads: expected 0 (one per core) to {MAX_THREADS}, found {threads}"
            raise ValueError(message)
        self.observation = preset(OBSERVATIONS, observation, "observation")
        self.action = preset(ACTIONS, action, "action")
        self.reward = preset(REWARDS, reward, "reward")
        first_bps = whole(initial_bps, "initial_bps", 0, MAX_BPS)
        self.initial_bps = float(first_bps)
        self.bounds_bps = whole_pair(bounds_bps, "bounds_bps", 0, MAX_BPS)
        count = whole(count, "num_envs", 1, MAX_ENVIRONMENTS)
        self.rates = np.full(count, self.initial_bps)
        # A step consists of several calls of the extension. Threads take turns.
        self._lock = threading.Lock()
        self.vector = VectorEnvironment(
            count,
            _list(traces),
            seed=int(np.random.SeedSequence().generate_state(1)[0]),
            threads=threads,
            codec=codec,
            model=model,
            clips=None if clips is None else _list(clips),
            width=size[0],
            height=size[1],
            frames_per_second=frames_per_second,
            step_ms=step_ms,
            steps=whole(episode_steps, "episode_steps", 0, MAX_UINT32),
            random_start=random_start,
            delay_ms=delay_ms,
            queue_packets=whole_pair(queue_packets, "queue_packets", 0, MAX_UINT32),
            loss=loss,
            at_sender=place == "sender",
            feedback_ms=numbers(feedback_ms, "feedback_ms"),
            rates_bps=(first_bps, *self.bounds_bps),
            observation=self.observation.kind if isinstance(self.observation, CallObservation) else None,
            shared=shared,
            cross_traffic=_list(cross_traffic),
        )

    def _features(self, values: Values) -> Features:
        seen = isinstance(self.observation, CallObservation)
        return Features(values, self.rates, self.vector.observations() if seen else None)

    def reset(
        self, seed: int | list[int | None] | None, mask: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.float32], Features]:
        if isinstance(seed, Sequence):
            seed = [None if one is None else whole(one, f"seed[{k}]", 0, MAX_UINT64) for k, one in enumerate(seed)]
        elif seed is not None:
            seed = whole(seed, "seed", 0, MAX_UINT64)
        with self._lock:
            return self._reset(seed, mask)

    def _reset(
        self, seed: int | list[int | None] | None, mask: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.float32], Features]:
        values, _ = self.vector.reset(seed, mask)
        begun = np.ones(len(values), np.bool_) if mask is None else mask
        self.rates[begun] = self.initial_bps
        features = self._features(values)
        self.observation.reset(features, begun)
        return self.observation.observe(features, begun), features

    def step(
        self, actions: NDArray[Any], begun: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float32], Values, NDArray[np.bool_], Features]:
        try:
            asked = self.action.rates(actions)
        except OverflowError as error:
            raise ValueError("invalid action; expected numbers, found a larger one than any float") from error
        with self._lock:
            return self._step(np.clip(asked, *self.bounds_bps), begun)

    def _step(
        self, rates: Values, begun: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float32], Values, NDArray[np.bool_], Features]:
        values, done = self.vector.step(rates)
        self.rates = np.where(begun, self.initial_bps, rates)
        features = self._features(values)
        if begun.any():
            self.observation.reset(features, begun)
        observed = self.observation.observe(features, np.ones(len(features), np.bool_))
        rewards = np.where(begun, 0.0, self.reward.reward(features))
        return observed, rewards, done, features


class CallVectorEnv(VectorEnv[NDArray[np.float32], NDArray[Any], NDArray[Any]]):
    """Many calls, stepped in Rust on all cores.

    An ended episode restarts in the next step (``AutoresetMode.NEXT_STEP``); the action of that step is ignored and
    its reward is 0. Episodes end by their length only, so they are truncated, never terminated.
    ``info["features"]`` contains all features, shape ``(num_envs, len(FEATURES))``.

    :param observation: ``"bob"``, ``"concerto"``, ``"hrcc"``, or a custom object.
    :param action: ``"rate"``, ``"bob"``, ``"concerto"``, or a custom object.
    :param reward: ``"bob"``, ``"concerto"``, ``"hrcc"``, or a custom object.
    :param place: ``"receiver"`` (feedback carries the rate as an estimate to the sender) or ``"sender"`` (the rate
        becomes the sender's target at once).
    :param traces: Capacity traces: files, or generated ones such as ``cellular:mean=2mbps,seed=1``; one or a sequence.
    :param random_start: Whether an episode begins at a random position in its trace.
    :param step_ms: Length of a step, milliseconds.
    :param episode_steps: Steps in an episode.
    :param delay_ms: Minimum and maximum propagation delay each way, milliseconds. Each episode draws this and all
        following values.
    :param queue_packets: Minimum and maximum number of packets that the bottleneck queue holds.
    :param loss: Minimum and maximum share of packets lost at random.
    :param shared: Share of episodes with cross traffic in a part of the episode. ``info["features"]`` then has half of
        the capacity as ``next_capacity_bps``, the agent's fair share.
    :param cross_traffic: Kinds of cross traffic: ``"tcp"``, or names of controllers whose call shares the link.
    :param initial_bps: Rate before the first action, bit/s.
    :param bounds_bps: Minimum and maximum rate, bit/s; other rates are clipped.
    :param feedback_ms: Minimum time between two acknowledgements, milliseconds; 0 sends one after each packet, None
        uses the default of calls. Of a sequence, each episode takes one.
    :param codec: Kind of codec model: ``"functional"`` (frames fit the current budget) or ``"conventional"`` (rate
        control adopts the target once a second, lost fragments are retransmitted), as in the papers on Concerto
        and BoB.
    :param model: A codec model as JSON (``lockstep model fit``); the built-in one if None.
    :param clips: Names of the model's clips to draw from, or one name; all if None.
    :param size: Width and height of the pictures.
    :param frames_per_second: Pictures a second.
    :param threads: Threads to step on, at most 1,024; 0 for one per core. Results do not depend on it.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}  # noqa: RUF012

    def __init__(self, num_envs: int = 1, **setting: Any) -> None:
        """``num_envs`` calls."""
        self.num_envs = num_envs
        self._calls = _Calls(num_envs, **setting)
        self.single_observation_space = self._calls.observation.space
        self.single_action_space = self._calls.action.space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._ended = np.zeros(num_envs, np.bool_)
        self._begun = False

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin new episodes. Equal seeds give equal episodes.

        With a list of seeds, one for each environment, each begins as a :class:`CallEnv` with that seed does. An
        environment whose seed is None continues with its current random state. A single seed gives each environment a
        different one: the first environment this seed, the others distant ones. They are not ``seed + 1`` and so on,
        as in Gymnasium's own vectors. Trainings use consecutive seeds for their vectors, and would see the same calls.

        ``options={"reset_mask": ...}``, a flag for each environment, resets only some; the others do not change.

        Raises:
            gymnasium.error.ClosedEnvironmentError: After the environments are closed.
            gymnasium.error.ResetNeeded: If the first reset has a mask that is not all true.
            ValueError: If the number of seeds or flags differs from the number of environments, or one is invalid.

        """
        _refuse_closed(self.closed)
        if not isinstance(seed, Sequence):
            super().reset(seed=seed)
        mask = self._mask(None if options is None else options.get("reset_mask"))
        observed, features = self._calls.reset(seed, mask)
        self._ended = np.zeros(self.num_envs, np.bool_) if mask is None else self._ended & ~mask
        self._begun = True
        return observed, {"features": features.values}

    def _mask(self, given: Any) -> NDArray[np.bool_] | None:
        """Flags of the environments to reset; None for all."""
        if given is None:
            return None
        mask = np.asarray(given)
        if mask.dtype != np.bool_ or mask.shape != (self.num_envs,):
            message = f"reset_mask: expected {self.num_envs} flags, found {mask.dtype} {mask.shape}"
            raise ValueError(message)
        if not self._begun and not mask.all():
            raise ResetNeeded("the first reset must include every environment; remove the mask")
        return mask

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[NDArray[np.float32], NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Run one step in all environments.

        Raises:
            gymnasium.error.ClosedEnvironmentError: After the environments are closed.
            gymnasium.error.ResetNeeded: Before the first reset.
            ValueError: If the number of actions differs from the number of environments, or one is invalid.

        """
        _refuse_closed(self.closed)
        if not self._begun:
            raise ResetNeeded("reset the environments before the first step")
        observed, rewards, done, features = self._calls.step(actions, self._ended)
        self._ended = done
        terminated = np.zeros(self.num_envs, np.bool_)
        return observed, rewards, terminated, done, {"features": features.values}


class CallEnv(gymnasium.Env[NDArray[np.float32], Any]):
    """One call. It has the parameters of :class:`CallVectorEnv`; ``info`` contains every feature by name."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(self, **setting: Any) -> None:
        """A call before its first reset."""
        self._calls = _Calls(1, **{"threads": 1, **setting})
        self.observation_space = self._calls.observation.space
        self.action_space = self._calls.action.space
        self._is_running = False
        self._closed = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode. Equal seeds give equal episodes."""
        _refuse_closed(self._closed)
        super().reset(seed=seed, options=options)
        observed, features = self._calls.reset(seed)
        self._is_running = True
        return observed[0], _named(features)

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Run one step.

        Raises:
            gymnasium.error.ClosedEnvironmentError: After the environment is closed.
            gymnasium.error.ResetNeeded: Before the first reset, and after the end of the episode.
            ValueError: If ``action`` is invalid.

        """
        _refuse_closed(self._closed)
        if not self._is_running:
            raise ResetNeeded("the episode has ended or none has begun; reset the environment")
        actions = np.asarray(action)[None]
        observed, rewards, done, features = self._calls.step(actions, np.zeros(1, np.bool_))
        self._is_running = not done[0]
        return observed[0], float(rewards[0]), False, bool(done[0]), _named(features)

    def close(self) -> None:
        """End the call; afterwards every method raises."""
        self._closed = True


def _refuse_closed(closed: bool) -> None:
    if closed:
        raise ClosedEnvironmentError("the environment is closed; create a new one")


def _named(features: Features) -> dict[str, Any]:
    return {name: float(value) for name, value in zip(FEATURES, features.values[0], strict=True)}
