"""The results that the three papers print, and their agreement with measured ones.

``printed_results.csv`` has one row for each result: paper, place, metric, system, condition, value and unit. Parts of
``lockstep study papers`` return values under the same names. A value can be exact (``3.9``), a bound (``>150``), about
zero (``~0``) or a range (``10-15``).
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import polars

from lockstep.intervals import mean_interval

NAMES = ("paper", "where", "metric", "system", "condition")
"""Columns that identify a result."""
PUBLISHED, TODAY, CHROMIUM = "published", "today", "chromium"
MODES = (PUBLISHED, TODAY, CHROMIUM)
"""Whose measurement: a published system, Lockstep today, or Chromium in the testbed."""

REPRODUCED = "reproduced within the interval"
DIRECTION = "same direction, other size"
NOT_REPRODUCED = "not reproduced"
UNDECIDED = "interval too wide to tell"
DEFINITION = "1 by definition"
NOT_MEASURED = "not measured in this run"
OUT_OF_REACH = "out of reach"
AGREEMENTS = (REPRODUCED, DIRECTION, NOT_REPRODUCED, UNDECIDED, DEFINITION, NOT_MEASURED, OUT_OF_REACH)
"""All agreements, in the order of the summary."""

_PROPRIETARY = "the program is proprietary and runs on phones or desktops that a machine without screen cannot drive"
_PEOPLE = "the value needs people who watch and rate; `lockstep rate` serves a page for such a study"
_USERS = "the value needs the calls of a million users; `lockstep sessions report` measures it on any session logs"
_DEPLOYMENT = "the value needs an app on phones of users in real networks"
_INTERNET = "the value needs OpenNetLab's hosts in Lanzhou, Beijing, Hong Kong and Seoul"
_CHROMIUM_ONLY = "only a browser codes VP9 with three layers; give a folder of the testbed with --testbed"

_OUT_OF_REACH: tuple[tuple[str, str, str, str], ...] = (
    # paper, place, system and reason; the first three are regular expressions for the beginning
    (r"Salsify", r"", r"FaceTime|Hangouts|Skype", _PROPRIETARY),
    (r"Salsify", r"", r"WebRTC \(VP9-SVC\)", _CHROMIUM_ONLY),
    (r"Salsify", r"Sec. 5, Fig. 7", r"", _PEOPLE),
    (r"Concerto", r"Sec. 2.2|Abstract", r"", _USERS),
    (r"Concerto", r"Table 5|Sec. 5.4", r"", _DEPLOYMENT),
    (r"BoB", r"Sec. IV-E", r"", _INTERNET),
)

PICTURES = (
    ("Salsify (NSDI 2018)", "Fig. 6(f)", "delay and quality over a minute of AT&T LTE"),
    (
        "Salsify (NSDI 2018)",
        "Sec. 5.2, Exp. 2-7",
        "the intermittent link, Wi-Fi, the ablation, the ramp, the outage, queues",
    ),
    ("Concerto (MobiCom 2019)", "Fig. 12", "standard deviation of the encoded rate, relative to the target"),
    ("Concerto (MobiCom 2019)", "Fig. 19", "QoE of each system; the text has the gaps alone"),
    ("Concerto (MobiCom 2019)", "Fig. 20-21", "distributions of throughput, loss, delay and frame rate"),
    ("Concerto (MobiCom 2019)", "Fig. 23-24", "QoE over beta, loops and epochs; the text has the largest variation"),
)
"""Figures whose values are in no text: paper, figure and content."""


@dataclass(frozen=True, slots=True)
class Printed:
    """A result that a paper prints."""

    paper: str
    where: str
    metric: str
    system: str
    condition: str
    value: str
    """As printed."""
    unit: str

    @property
    def key(self) -> tuple[str, ...]:
        """The names that identify it."""
        return tuple(getattr(self, name) for name in NAMES)

    @property
    def number(self) -> float:
        """The printed number: the upper end of a range, the bound of an inequality."""
        return float(re.findall(r"-?\d+(?:\.\d+)?", re.sub(r"(?<=\d)-(?=\d)", " ", self.value))[-1])

    @property
    def bound(self) -> str:
        """``least`` or ``most`` if the paper prints a bound; otherwise empty."""
        if self.value.startswith(">") or re.search(r"more than|at least|over half", self.metric):
            return "least"
        return "most" if re.search(r"at most|up to", self.metric) else ""

    @property
    def neutral(self) -> float | None:
        """The value that means no difference: 0 for a difference, 1 for a ratio; None for other results."""
        if self.metric.startswith("GCC updates"):
            return 100.0  # a ratio in percent
        if self.unit == "ratio" or re.match(r"x\b", self.unit) or self.metric.startswith("normalised"):
            return 1.0
        relative = r"improvement|gain|gap|below|above|SSIM less|SSIM, Salsify over|loss of the|model better|variation"
        return 0.0 if re.search(relative, self.metric) else None

    @property
    def group(self) -> tuple[str, ...]:
        """Results whose order gives this one its direction."""
        metric = re.sub(r"kept by the (sender|receiver)|(at which the |at which no ).*", "", self.metric)
        return (self.paper, self.where, metric, "" if self.metric == "PSR" else self.condition)

    @property
    def out_of_reach(self) -> str | None:
        """The reason why no program alone can measure it; None if one can."""
        for paper, where, system, reason in _OUT_OF_REACH:
            if re.match(paper, self.paper) and re.match(where, self.where) and re.match(system, self.system):
                return reason
        return None


def printed_results() -> list[Printed]:
    """All results of the three papers, and of the files of Salsify's testbed, paper by paper."""
    file = resources.files("lockstep.studies") / "printed_results.csv"
    table = polars.read_csv(file.read_bytes(), infer_schema=False).fill_null("")
    return [Printed(**row) for row in table.iter_rows(named=True)]


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured value: mean over runs, half its 95 % confidence interval (NaN for one run), number of runs."""

    mean: float
    half: float
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Measured":
        """The mean and interval of ``values``."""
        return cls(*mean_interval(values), len(values))

    @property
    def reach(self) -> float:
        """Half the interval; 0 for one run."""
        return self.half if math.isfinite(self.half) else 0.0


def agreement(printed: Printed, ours: Measured | None, others: Mapping[Printed, Measured]) -> str:
    """The agreement of ``ours`` with ``printed``; ``others`` are the results of the same group with measured values.

    An interval that includes no difference, or for other results zero, decides nothing. The direction is that from no
    difference (:attr:`Printed.neutral`), or else from the mean of the others.
    """
    if ours is None or not math.isfinite(ours.mean):
        return OUT_OF_REACH if printed.out_of_reach else NOT_MEASURED
    if printed.metric.startswith("normalised") and printed.number == 1.0:
        return DEFINITION
    low, high = ours.mean - ours.reach, ours.mean + ours.reach
    if low < (printed.neutral or 0.0) < high:
        return UNDECIDED
    if _holds(printed, low, high):
        return REPRODUCED
    theirs, own = printed.neutral, printed.neutral
    if theirs is None and others:
        theirs = sum(other.number for other in others) / len(others)
        own = sum(value.mean for value in others.values()) / len(others)
    if theirs is not None and own is not None and (printed.number - theirs) * (ours.mean - own) > 0.0:
        return DIRECTION
    return NOT_REPRODUCED


def _holds(printed: Printed, low: float, high: float) -> bool:
    """Whether the printed number lies in the interval, or its bound holds for a part of it."""
    return (printed.bound == "least" or low <= printed.number) and (printed.bound == "most" or printed.number <= high)


class Results:
    """Measured values under the names of the printed results."""

    def __init__(self) -> None:
        """No values."""
        self.printed = printed_results()
        self._values: dict[tuple[tuple[str, ...], str], dict[int, float]] = {}

    def add(self, mode: str, seed: int, value: float | None, *, exact: str | None = None, **names: str) -> None:
        """Adds a value to all printed results whose names begin with ``names``, and whose system is ``exact``.

        None, NaN and infinity are skipped.
        """
        if value is None or not math.isfinite(value):
            return
        for printed in self.printed:
            begins = all(getattr(printed, name).startswith(beginning) for name, beginning in names.items())
            if begins and exact in (None, printed.system):
                self._values.setdefault((printed.key, mode), {})[seed] = float(value)

    def measured(self, printed: Printed, mode: str) -> Measured | None:
        """The measured value of a printed result; None without one."""
        values = self._values.get((printed.key, mode))
        return Measured.of(list(values.values())) if values else None

    def table(self) -> polars.DataFrame:
        """One row for each printed result: its names and value, the measured ones, and the agreement."""
        rows = []
        groups: dict[tuple[str, ...], dict[Printed, Measured]] = {}
        for printed in self.printed:
            ours = self.measured(printed, PUBLISHED)
            if ours is not None:
                groups.setdefault(printed.group, {})[printed] = ours
        for printed in self.printed:
            row: dict[str, Any] = {name: getattr(printed, name) for name in NAMES}
            row |= {"value": printed.value, "number": printed.number, "unit": printed.unit}
            for mode in MODES:
                ours = self.measured(printed, mode)
                row[mode] = None if ours is None else ours.mean
                row[f"{mode}_half"] = None if ours is None else ours.half
                row[f"{mode}_runs"] = 0 if ours is None else ours.runs
            others = {other: known for other, known in groups.get(printed.group, {}).items() if other != printed}
            row["agreement"] = agreement(printed, self.measured(printed, PUBLISHED), others)
            row["reason"] = printed.out_of_reach or ""
            rows.append(row)
        return polars.DataFrame(rows, infer_schema_length=None)
