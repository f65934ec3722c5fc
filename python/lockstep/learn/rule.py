"""The rule of Lockstep's own controller, its deadline and quantile, and the search for one.

``crates/control/src/learned/lockstep/rule.rs`` defines its numbers. The cross-entropy method (Rubinstein 1999) searches
for them in calls over training traces. The objective is QoE_d, with a penalty for longer delays than the best classical
controller.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lockstep.learn.families import kind
from lockstep.simulation import Codec, simulate

SCALARS = {
    "deadline": (0.0143, 0.004, 0.0, 0.2),
    "intervals": (1.05, 0.07, 0.0, 3.0),
    "level": (0.55, 0.05, 0.1, 0.75),
    "smallest": (0.4, 0.2, 0.0, 0.8),
}
"""Start, standard deviation, minimum and maximum of each number in the search (``rule.rs`` defines the numbers).

The search starts at the shipped rule, which was chosen by calls with pixels (``lab: 2026-11-learning``, "The rule").
Its deviations are wide enough to try a level of 0.5 and frames of any size (``smallest`` of 0).
"""
FIXED = "shared=1.75,shared_steady=0.3"
"""Numbers outside the search: calls without cross traffic do not need them, calls with cross traffic do."""
TARGET_LEVELS = (0.1, 0.15, 0.22, 0.32)
"""Candidate quantiles for the target of codecs with a target rate."""
DELAY_WEIGHTS = {"low": 2.0, "balanced": 1.0, "quality": 0.5}
"""Weight of the delay relative to QoE_d, for each latency."""
CLASSICAL = "sprout"
"""Reference of the search: the best classical controller."""
MAX_GAIN = 0.15
"""Saturation of the gain in QoE_d of a single call, so that one outage does not dominate."""
LATE = 0.1
"""Penalty in QoE_d if the 95th percentiles of the delay of a kind of trace are e times the classical ones.

``lab: 2026-11-learning``
"""
DELAY = 1.92
"""Loss of QoE_d per second of mean video delay (``QOE_D_DELAY`` of ``crates/control``)."""

MODELLED_CLIPS = ("generated:1280x720@30", "generated:1280x720@30", "generated:640x360@60")
"""Clips of the modelled calls in the search."""

Setting = dict[str, Any]


def settings_of(traces: Sequence[str], seed: int, count: int, clips: Sequence[str] = ()) -> list[Setting]:
    """Calls for the search, up to ``count`` of each kind of trace; with pixels of ``clips`` if given."""
    draw = np.random.default_rng([seed, 0x2017E])
    kinds: dict[str, list[str]] = {}
    for trace in sorted(set(traces)):
        kinds.setdefault(kind(trace), []).append(trace)
    chosen = []
    for alike in kinds.values():
        some = draw.permutation(len(alike))[:count]
        chosen += [alike[index] for index in some]
    return [
        {
            "trace": trace,
            "clip": str(draw.choice(list(clips or MODELLED_CLIPS))),
            "modelled": not clips,
            "delay_ms": float(draw.choice([20.0, 20.0, 10.0, 60.0])),
            "queue_packets": int(draw.choice([256, 256, 60])),
            "loss": str(draw.choice(["0", "0", "0.01", "0.05"])),
            "feedback_ms": float(draw.choice([20.0, 20.0, 50.0])),
            "seed": int(draw.integers(1, 1000)),
        }
        for trace in chosen
    ]


def check_clips(clips: Iterable[str]) -> None:
    """Runs a call of 0.1 s with each of ``clips``: otherwise the search would open them only after all rounds.

    Raises:
        ValueError: If one is missing or not usable in a call.

    """
    for clip in clips:
        try:
            simulate("constant:1mbps", clip=clip, codec="functional", seconds=0.1)
        except (ValueError, RuntimeError) as error:
            why = (str(error).splitlines() or [type(error).__name__])[0]
            raise ValueError(f"--tuned-clip {clip}: cannot use this clip ({why})") from error


def outcome(  # noqa: PLR0913
    call: Setting, controller: str, latency: str, model: Path | None, *, seconds: float, codec: Codec = "functional"
) -> tuple[float, float]:
    """QoE_d with the delay weight of ``latency``, and the 95th percentile of the delay (ms)."""
    tolerated = latency if controller in {"lockstep", "sprout"} else None  # other controllers have no latency option
    made = simulate(**call, controller=controller, latency=tolerated, model=model, seconds=seconds, codec=codec)
    delay = made.scores["video_delay_ms"]
    extra = (DELAY_WEIGHTS[latency] - 1.0) * DELAY * delay["mean"] / 1e3
    return made.scores["qoe_d"] - extra, delay["p95"]


def outcomes(
    calls: Sequence[Setting], controller: str, latency: str, model: Path | None, **setting: Any
) -> NDArray[np.float64]:
    """Outcomes of several calls [calls, 2]."""
    return np.array([outcome(call, controller, latency, model, **setting) for call in calls])


def worth(calls: Sequence[Setting], ours: NDArray[np.float64], classical: NDArray[np.float64]) -> float:
    """Value of outcomes relative to the ``classical`` ones [calls, 2]: the mean over kinds of traces.

    Each loss rate is a separate kind, so that delays without loss cannot offset delays with loss.
    """
    gain = MAX_GAIN * np.tanh((ours[:, 0] - classical[:, 0]) / MAX_GAIN)
    late = np.log(ours[:, 1] / classical[:, 1])
    kinds = np.array([f"{kind(call['trace'])}, {call['loss']}" for call in calls])
    each = [gain[kinds == one].mean() - LATE * max(0.0, late[kinds == one].mean()) for one in np.unique(kinds)]
    return float(np.mean(each))


class Search:
    """Cross-entropy method over the numbers of a rule, for one latency."""

    def __init__(self, latency: str) -> None:
        """Starts at :data:`SCALARS`."""
        self.latency = latency
        self.mean = np.array([value[0] for value in SCALARS.values()])
        self.shift()
        self.deviation = np.array([value[1] for value in SCALARS.values()])
        self.best: tuple[float, list[float]] = (-np.inf, list(self.mean))

    def shift(self) -> None:
        """Moves the start from a good rule for ``balanced`` towards one for another latency."""
        if self.latency != "balanced":
            self.mean[0] = max(0.0, self.mean[0] + (0.02 if self.latency == "quality" else -0.005))

    def begin_at(self, other: "Search") -> None:
        """Starts at the current result of another search."""
        self.mean = other.mean.copy()
        self.shift()
        self.best = (-np.inf, list(self.mean))

    def draw(self, generator: np.random.Generator, count: int) -> list[NDArray[np.float64]]:
        """Rules to try, including the mean."""
        least, most = (np.array([value[index] for value in SCALARS.values()]) for index in (2, 3))
        tries = [self.mean] + [
            self.mean + self.deviation * generator.standard_normal(len(SCALARS)) for _ in range(count - 1)
        ]
        return [np.clip(one, least, most) for one in tries]

    def learn(self, tries: list[NDArray[np.float64]], values: list[float]) -> None:
        """Moves mean and deviation towards the best quarter."""
        order = np.argsort(values)[::-1]
        best = np.array([tries[index] for index in order[: max(2, len(tries) // 4)]])
        self.mean = 0.2 * self.mean + 0.8 * best.mean(0)
        self.deviation = np.maximum(
            0.3 * self.deviation + 0.7 * best.std(0), 0.1 * np.array([v[1] for v in SCALARS.values()])
        )
        if values[order[0]] > self.best[0]:
            self.best = (values[order[0]], list(tries[order[0]]))


def rule_text(values: Iterable[float]) -> str:
    """The rule as text that the controller parses."""
    return ",".join(f"{name}={value:.4f}" for name, value in zip(SCALARS, values, strict=True)) + f",{FIXED}"


def rules_of(searches: Mapping[str, Search], given: Iterable[str] = ()) -> dict[str, str]:
    """The rule of each latency: the result of its search, or the one in ``given``."""
    rules = {latency: rule_text(search.mean) for latency, search in searches.items()}
    for one in given:
        latency, _, text = one.partition("=")
        fixed, numbers = (dict(part.partition("=")[::2] for part in rule.split(",")) for rule in (FIXED, text))
        if latency not in DELAY_WEIGHTS or not set(SCALARS) <= set(numbers) <= {*SCALARS, *fixed}:
            message = f"--rule {one}: expected one of {', '.join(DELAY_WEIGHTS)}, `=`, and {', '.join(SCALARS)}"
            raise ValueError(message)
        whole = {**numbers, **fixed, **numbers}
        rules[latency] = ",".join(f"{name}={value}" for name, value in whole.items())
    return rules
