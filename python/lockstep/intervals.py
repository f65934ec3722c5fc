"""Means and their confidence intervals over seeds."""

import math
from collections.abc import Sequence

T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
"""97.5 % quantiles of Student's t with 1, 2, ... degrees of freedom; above 15, the one of 15 is used."""


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean and half the width of its 95 % confidence interval (Student's t); NaN where undefined."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return math.nan, math.nan
    mean = math.fsum(known) / len(known)
    if len(known) < 2:
        return mean, math.nan
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in known) / (len(known) - 1))
    return mean, T_95[min(len(known) - 1, len(T_95)) - 1] * deviation / math.sqrt(len(known))
