"""Features: measurements of a step, for all environments at once."""

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lockstep._lockstep import VectorEnvironment

Values: TypeAlias = NDArray[np.float64]

FEATURES: Final[dict[str, str]] = dict(VectorEnvironment.features())
"""Names of the features with their units, and their meanings, in column order."""

_COLUMNS: Final[dict[str, int]] = {name: column for column, name in enumerate(FEATURES)}


class Features:
    """Features of a step: ``features["received_bps"]`` has one value per environment, shape ``(environments,)``."""

    def __init__(self, values: Values, rates: Values, observed: NDArray[np.float32] | None = None) -> None:
        """Features from rows of values, the rates of the agents, bit/s, and a learned controller's observation."""
        self.values = values
        self.rates = rates
        self.observed = observed

    def __getitem__(self, name: str) -> Values:
        """The feature ``name`` (see :data:`FEATURES`) of every environment."""
        column: Values = self.values[:, _COLUMNS[name]]
        return column

    def __len__(self) -> int:
        """Number of environments."""
        return len(self.values)


def logarithmic(rates_bps: Values, least_bps: float = 1e4, most_bps: float = 8e6) -> Values:
    """Rates on a logarithmic scale from 0 (``least_bps``) to 1 (``most_bps``), clipped, as in AlphaRTC and BoB."""
    clipped = np.clip(rates_bps, least_bps, most_bps)
    scaled: Values = np.log(clipped / least_bps) / np.log(most_bps / least_bps)
    return scaled


def linear(scaled: Values, least_bps: float = 1e4, most_bps: float = 8e6) -> Values:
    """The inverse of :func:`logarithmic`: rates, bit/s, of values that are clipped to 0..1."""
    rates: Values = least_bps * (most_bps / least_bps) ** np.clip(scaled, 0.0, 1.0)
    return rates
