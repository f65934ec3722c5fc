"""Generated links instead of the profiles of BoB's paper (IEEE TMM 2022, section IV), which are not shipped.

Each has the mean rate, the delay, the loss and roughly the variation of its profile, for 120 s. LTE and the bus are of
the family fitted to recordings of LTE; the levels of the others are random.
"""

import math
import random
from collections.abc import Callable

PUBLISHED = (
    "the published profiles are in BoB's public repository, NUStreaming/BoB on GitHub; --profiles names their folder"
)
SECONDS = 120
_IMPAIRED = ",delay=50ms,loss=0.08%"


def _fitted(seed: int, mean_kbps: float, conditions: str = "") -> Callable[[float], str]:
    return lambda share: f"fitted:lte,seed={seed},seconds={SECONDS},mean={mean_kbps * share:.0f}kbps{conditions}"


def _drawn(  # noqa: PLR0913
    seed: int, mean_kbps: float, *, deviation: float, hold: int, noise: float = 0.0, conditions: str = ""
) -> Callable[[float], str]:
    """Levels of ``hold`` seconds with the log standard deviation ``deviation``, and ``noise`` on every second."""
    generator = random.Random(seed)  # noqa: S311 -- not a secret
    levels = [generator.gauss(0.0, deviation) for _ in range(SECONDS // hold)]
    rates = [math.exp(levels[second // hold] + generator.gauss(0.0, noise)) for second in range(SECONDS)]
    unit = mean_kbps * SECONDS / sum(rates)
    return lambda share: "steps:" + "/".join(f"{rate * unit * share:.0f}kbps@1s" for rate in rates) + conditions


def _cascade(share: float) -> str:
    return "steps:" + "/".join(f"{kbps * share:.0f}kbps@5s" for kbps in (1200, 800, 400, 800, 1200))


_KINDS = {
    "FCCamazone": _drawn(1, 2707, deviation=0.65, hold=20, noise=0.06, conditions=_IMPAIRED),
    "NYUbus": _fitted(9_000_000_106, 9632, _IMPAIRED),
    "Synthtic": _drawn(2, 2328, deviation=0.7, hold=1, conditions=_IMPAIRED),
    "cascade_profile": _cascade,
    "lte_profile": _fitted(9_000_000_105, 2966),
    "twitch_profile": _drawn(3, 1327, deviation=0.7, hold=10),
}
PROFILES = tuple(_KINDS)
"""The published files; the paper's text has five, one of them synthetic."""


def generated(profile: str, share: float = 1.0) -> str:
    """The link for ``profile``, for `lockstep simulate --trace`, with its rates multiplied by ``share``."""
    return _KINDS[profile](share)
