"""Trials of one participant, and the file of ratings."""

import csv
import io
import itertools
import math
import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lockstep.content_hash import content_hash

MEDIA_TYPES = {".webm": "video/webm", ".mp4": "video/mp4", ".mkv": "video/x-matroska"}
"""Media type of a clip by the suffix of its file."""
SIGNATURES = {".webm": (0, b"\x1a\x45\xdf\xa3"), ".mp4": (4, b"ftyp"), ".mkv": (0, b"\x1a\x45\xdf\xa3")}
"""Offset and first bytes of the container format, by suffix."""
RATINGS = {"acr": range(1, 6), "pair": range(1, 3)}
"""Ratings by method: ACR from 1 (bad) to 5 (excellent); of a pair, the better clip in the order of display."""
COLUMNS = ("participant", "method", "trial", "repeat", "first", "first_sha256", "second", "second_sha256")
RATED = (*COLUMNS, "rating", "seconds")
"""Columns of the file of ratings. `trial` counts from 1 in the order of display; `seconds` is the time from the end of
the last clip to the rating. Without a pair, `second` is empty."""


@dataclass(frozen=True, slots=True)
class Clip:
    """A file under test."""

    path: Path
    sha256: str

    @property
    def media_type(self) -> str:
        """The media type for HTTP."""
        return MEDIA_TYPES[self.path.suffix.lower()]


@dataclass(frozen=True, slots=True)
class Trial:
    """What one rating is about: one clip, or two in the order of display."""

    clips: tuple[Clip, ...]
    repeat: int


def load_clip(path: Path) -> Clip:
    """Reads and identifies a file.

    Raises:
        ValueError: If it does not exist, or is not in a supported container.

    """
    suffix = path.suffix.lower()
    if suffix not in MEDIA_TYPES:
        raise ValueError(f"cannot play {path}: expected a name that ends in {', '.join(MEDIA_TYPES)}")
    sha256 = content_hash(path)
    offset, signature = SIGNATURES[suffix]
    with path.open("rb") as file:
        if file.read(offset + len(signature))[offset:] != signature:
            raise ValueError(f"cannot play {path}: the file is not {suffix.removeprefix('.')}; convert it with ffmpeg")
    return Clip(path, sha256)


def plan(method: str, clips: Sequence[Clip], repeats: int, seed: int, participant: str) -> list[Trial]:
    """The trials of a participant in order; each participant has another order.

    With ``pair``, each repeat has every pair of clips. The first order of a pair is random, and repeats alternate it.
    So two repeats are the complete design of P.910, which shows both orders.

    Raises:
        ValueError: If a pair requires more clips, or a clip is given twice.

    """
    if len({clip.sha256 for clip in clips}) < len(clips):
        raise ValueError("two of the clips have the same content; name each clip once and use --repeat")
    if method == "pair" and len(clips) < 2:
        raise ValueError("a pair requires two clips; name another clip or use --method acr")
    generator = random.Random(f"{seed} {participant}")  # noqa: S311
    shown: list[tuple[Clip, ...]] = [(clip,) for clip in clips]
    if method == "pair":
        shown = [pair if generator.random() < 0.5 else pair[::-1] for pair in itertools.combinations(clips, 2)]
    trials: list[Trial] = []
    for repeat in range(1, repeats + 1):
        block = [Trial(given if repeat % 2 else given[::-1], repeat) for given in shown]
        generator.shuffle(block)
        trials += block
    return trials


class Ratings:
    """The ratings of one participant, appended to a file that others may share."""

    def __init__(self, path: Path, participant: str, method: str, trials: Sequence[Trial]) -> None:
        """Reads the participant's ratings in the file, after which the study resumes.

        Raises:
            ValueError: If the file has other columns, an incomplete row, or the participant's ratings of other trials.

        """
        self.path, self.trials = path, trials
        self._participant, self._method = participant, method
        self.count = self._read()

    def _read(self) -> int:
        """The number of ratings that the participant has given."""
        if not self.path.exists() or self.path.stat().st_size == 0:
            return 0
        where = f"cannot append to {self.path}"
        text = self.path.read_bytes().decode()
        if not text.endswith("\n"):
            raise ValueError(f"{where}: the last row is incomplete; remove it")
        rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        if tuple(rows.fieldnames or ()) != RATED:
            raise ValueError(f"{where}: it is not a file of `lockstep rate`; use another --output")
        count = 0
        for row in rows:
            if row["participant"] != self._participant or row["method"] != self._method:
                continue
            if count == len(self.trials) or not self._is_row_of(row, count):
                raise ValueError(
                    f"{where}: {self._participant} rated other trials; repeat the same clips, --repeat and --seed, or "
                    "use another --participant or --output"
                )
            count += 1
        return count

    def _is_row_of(self, row: Mapping[str, str], at: int) -> bool:
        """Whether a row rates the trial ``at``. Names of files may change, contents may not."""
        names = ("trial", "repeat", "first_sha256", "second_sha256")
        return all(row[name] == self._row(at)[name] for name in names)

    def _row(self, at: int) -> dict[str, str]:
        """The values of the trial ``at``, without its rating."""
        trial = self.trials[at]
        first = trial.clips[0]
        second = trial.clips[1] if len(trial.clips) == 2 else None
        values = (
            self._participant,
            self._method,
            str(at + 1),
            str(trial.repeat),
            str(first.path),
            first.sha256,
            str(second.path) if second else "",
            second.sha256 if second else "",
        )
        return dict(zip(COLUMNS, values, strict=True))

    @property
    def finished(self) -> bool:
        """Whether every trial has a rating."""
        return self.count == len(self.trials)

    def append(self, trial: int, rating: int, seconds: float) -> None:
        """Writes the rating of the next trial to the disk; ``trial`` counts from 1.

        Raises:
            ValueError: If the trial is not the next one, or a value is out of range.
            OSError: If the file cannot be written.

        """
        if self.finished or trial != self.count + 1:
            raise ValueError(f"trial {trial} is not the next one")
        if rating not in RATINGS[self._method]:
            raise ValueError(f"{rating!r} is not a rating of {self._method}")
        if not (math.isfinite(seconds) and seconds >= 0.0):
            raise ValueError(f"{seconds!r} is not a time in seconds")
        with self.path.open("a", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, RATED, lineterminator="\n")
            if file.tell() == 0:
                writer.writeheader()
            writer.writerow(self._row(self.count) | {"rating": str(rating), "seconds": f"{seconds:.2f}"})
            file.flush()
            os.fsync(file.fileno())
        self.count += 1
