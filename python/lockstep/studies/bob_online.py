"""BoB as published, online: training from scratch, and the time until its learned half decides in a call.

BoB's paper (IEEE TMM 2022, section III-F) claims that its net converges after 500 episodes in the mean. Another claim:
at the start of a session the heuristic decides for at most 10 to 15 s.

The selector uses the net's estimate where it differs from the heuristic's by less than its threshold. A call in which
that never happens counts with its whole length.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lockstep import _lockstep
from lockstep.gym import CallVectorEnv
from lockstep.gym.actions import GivenRate
from lockstep.gym.features import linear
from lockstep.gym.observations import CallObservation
from lockstep.learn.bob import PUBLISHED_RANGES_BPS, RANGES, SEEN, select
from lockstep.learn.ppo import INTERVAL_MS

SETTLED = 0.1
"""Share of a curve's whole change within which it counts as converged."""


def converged_after(curve: Sequence[tuple[int, float]]) -> int | None:
    """The first step from which a curve stays near its final value, the mean of its last quarter.

    None if the curve has less than four points, or is not near it before the last quarter.
    """
    if len(curve) < 4:
        return None
    values = np.array([value for _, value in curve])
    last = max(len(values) // 4, 1)
    final = values[-last:].mean()
    allowed = SETTLED * abs(final - values[0])
    far = np.flatnonzero(np.abs(values - final) > allowed)
    first = 0 if len(far) == 0 else int(far[-1]) + 1
    return None if first >= len(values) - last else int(curve[first][0])


def learned_rate(probabilities: Sequence[float], *, as_published: bool) -> float:
    """The learned estimate, bit/s: the centre of the likeliest range as published, otherwise the mean place."""
    known = np.asarray(probabilities, np.float64)
    if as_published:
        place = int(known.argmax())
        return (PUBLISHED_RANGES_BPS[place] + PUBLISHED_RANGES_BPS[place + 1]) / 2.0
    return float(linear(np.array([known @ np.linspace(0.0, 1.0, RANGES) / known.sum()]))[0])


def hand_over(  # noqa: PLR0913
    model: Path, trace: str, *, as_published: bool, threshold: float, seconds: float, seed: int
) -> dict[str, Any]:
    """Time until the learned half of BoB decides in a modelled call, and its share of the decisions.

    Each decision is applied, so the call is that of an estimator at the receiver with this model.
    """
    net = _lockstep.OnnxModel(model.read_bytes())
    steps = max(1, round(seconds * 1e3 / INTERVAL_MS))
    env = CallVectorEnv(
        1,
        observation=CallObservation("bob-printed" if as_published else "bob", (SEEN,), -1.0, 10.0),
        action=GivenRate(),
        reward="bob",
        place="receiver",
        traces=[trace],
        random_start=False,
        step_ms=INTERVAL_MS,
        episode_steps=steps + 1,
        delay_ms=(20.0, 20.0),
        queue_packets=(256, 256),
        codec="conventional",
        size=(640, 360),
        frames_per_second=24.0,
        threads=1,
    )
    seen, _ = env.reset(seed=seed)
    first, used = steps, 0
    for step in range(steps):
        learned = learned_rate(net.run([seen[0]])[0], as_published=as_published)
        heuristic = linear(seen[:, -1].astype(np.float64))
        rate = select(np.array([learned]), heuristic, threshold)
        if rate[0] == learned:
            first, used = min(first, step), used + 1
        seen, *_ = env.step(rate)
    env.close()
    return {
        "hand_over_s": first * INTERVAL_MS / 1e3,
        "learned_percent": 100.0 * used / steps,
        "handed_over": float(first < steps),
    }
