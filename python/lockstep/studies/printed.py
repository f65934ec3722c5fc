"""Figures in papers compared with those measured here: each with its source and the reason for differences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars

from lockstep.study import own

Ours = Callable[[polars.DataFrame], str | None]
"""Finds the measured figure in a part's means; None if it was not measured."""


@dataclass(frozen=True)
class PaperFigure:
    """A figure in a paper."""

    part: str
    """Part of the study to which it belongs."""
    what: str
    """Name of the quantity."""
    printed: str
    """The printed value."""
    source: str
    """The paper and its section, or a citing source."""
    ours: Ours
    why: str
    """The difference from the measured figure, and its known reasons."""


def row_mean(measure: str, digits: int, unit: str, **row: str | int) -> Ours:
    """The mean of ``measure``, with its interval, in the row with these column values."""

    def find(means: polars.DataFrame) -> str | None:
        wanted = [polars.col(name) == value for name, value in row.items()]
        found = means.filter(*wanted)
        return None if found.is_empty() else f"{own(found.row(0, named=True), measure, digits)} {unit}".rstrip()

    return find


def best_row(measures: Sequence[str], by: str, unit: str) -> Ours:
    """The value of ``by`` with the largest mean of the first available of ``measures``."""

    def find(means: polars.DataFrame) -> str | None:
        known = [name for name in measures if name in means.columns]
        if not known:
            return None
        best = means.sort(known[0], descending=True, nulls_last=True)[by][0]
        return f"{best} {unit} (the best {known[0]})"

    return find


def comparison(figures: Sequence[PaperFigure], part: str, means: polars.DataFrame, paper: str) -> str:
    """The figures of ``paper`` for ``part``, each with the measured one; a notice if there is none."""
    lines = []
    for figure in figures:
        ours = figure.ours(means) if figure.part == part else None
        if ours is not None:
            lines.append(f"  {figure.what}: paper {figure.printed}; here {ours}. {figure.why} [{figure.source}]")
    if not lines:
        return f"No figure of {paper} is available for comparison.\n"
    return "\n".join([f"Figures of {paper} and of this study:", *lines, ""])
