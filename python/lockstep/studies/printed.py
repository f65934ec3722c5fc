"""Figures that papers print, beside ours: each with its source, and where and why ours differs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars

from lockstep.study import own

Ours = Callable[[polars.DataFrame], str | None]
"""Finds in a part's means what stands beside a paper's figure; none where it was not run."""


@dataclass(frozen=True)
class PaperFigure:
    """A figure that a paper has."""

    part: str
    """The part of the study that it belongs to."""
    what: str
    """Of what it is."""
    printed: str
    """As it is printed."""
    source: str
    """Where: the paper and its section, or who quotes it."""
    ours: Ours
    why: str
    """Where ours differs, and why, as far as that is known."""


def row_mean(measure: str, digits: int, unit: str, **row: str) -> Ours:
    """The mean of ``measure``, with its interval, in the row whose columns are as said."""

    def find(means: polars.DataFrame) -> str | None:
        wanted = [polars.col(name) == value for name, value in row.items()]
        found = means.filter(*wanted)
        return None if found.is_empty() else f"{own(found.row(0, named=True), measure, digits)} {unit}".rstrip()

    return find


def best_row(measures: Sequence[str], by: str, unit: str) -> Ours:
    """The value of ``by`` whose mean is the largest: of the first of ``measures`` that there is."""

    def find(means: polars.DataFrame) -> str | None:
        known = [name for name in measures if name in means.columns]
        if not known:
            return None
        best = means.sort(known[0], descending=True, nulls_last=True)[by][0]
        return f"{best} {unit} (the best {known[0]})"

    return find


def beside(figures: Sequence[PaperFigure], part: str, means: polars.DataFrame, paper: str) -> str:
    """The figures that ``paper`` has for ``part``, each beside ours; a line that says so if there is none."""
    lines = []
    for figure in figures:
        ours = figure.ours(means) if figure.part == part else None
        if ours is not None:
            lines.append(f"  {figure.what}: there {figure.printed}; here {ours}. {figure.why} [{figure.source}]")
    if not lines:
        return f"{paper}'s own figures for this are not at hand; none is beside ours.\n"
    return "\n".join([f"What {paper} has, and what is found here:", *lines, ""])
