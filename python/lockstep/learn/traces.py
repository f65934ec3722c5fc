"""Traces for training and judging: generated ones, parts of a folder, and those of a manifest."""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from lockstep import _lockstep
from lockstep.content_hash import content_hash
from lockstep.module_command import print_text


def logarithmically(draw: np.random.Generator, least: float, most: float) -> float:
    """A random number from ``least`` to ``most``, uniform on a logarithmic scale."""
    return float(np.exp(draw.uniform(np.log(least), np.log(most))))


def generated_traces(seed: int, count: int) -> list[str]:
    """Texts for ``count`` generated traces of a minute: of ten, six cellular, two like Wi-Fi, two wired.

    Mean rates are spread evenly on a logarithmic scale from 150 kb/s to 10 Mb/s. Another seed gives other traces.
    """
    draw = np.random.default_rng([seed, 0x7ACE])
    traces = []
    for index in range(count):
        mean = round(logarithmically(draw, 150, 10_000))
        own = int(draw.integers(1 << 31))
        kind = index % 10
        if kind < 6:
            deviation, dwell = draw.uniform(0.4, 0.9), draw.uniform(1.0, 6.0)
            every = draw.choice([15.0, 30.0, 120.0])
            traces.append(
                f"cellular:mean={mean}kbps,deviation={deviation:.2f},dwell={dwell:.2f}s,"
                f"outage-every={every:.0f}s,duration=60s,seed={own}"
            )
        elif kind < 8:
            noise = draw.uniform(0.2, 0.5)
            traces.append(
                f"cellular:mean={2 * mean}kbps,deviation=0.3,dwell=0.5s,step=20ms,noise={noise:.2f},"
                f"outage-every=60s,outage-length=200ms,duration=60s,seed={own}"
            )
        elif kind == 8:
            traces.append(f"constant:{mean}kbps")
        else:
            other = round(float(mean * draw.uniform(0.3, 0.8)))
            first, second = draw.integers(5, 20, 2)
            traces.append(f"steps:{mean}kbps@{first}s/{other}kbps@{second}s")
    return traces


def family_traces(family: str, seed: int, count: int) -> list[str]:
    """Texts for ``count`` traces of a minute from a fitted family; another seed gives other traces."""
    draw = np.random.default_rng([seed, 0xFA317])
    return [f"fitted:family={family},seed={own},seconds=60" for own in draw.integers(1 << 16, size=count)]


def traces_of(folder: Path) -> list[str]:
    """The traces in a folder and its subfolders, sorted by name.

    Other files are skipped with a message, as in ``lockstep data split``, which itself writes other files there.

    Raises:
        ValueError: If the folder does not exist.

    """
    if not folder.is_dir():
        raise ValueError(f"--traces {folder}: no such folder")
    names = []
    for path in sorted(str(path) for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")):
        try:
            _lockstep.SteppedCall(path, interval_ms=100, length_ms=100, seed=0, delay_ms=0.0, queue_packets=1)
        except ValueError as error:
            why = str(error).removeprefix(f"trace {path}: ")
            print_text(f"skipped {Path(path).relative_to(folder)}: {why}")
        else:
            names.append(path)
    return names


def split_folder(folder: Path, seed: int) -> tuple[list[str], list[str]]:
    """The traces in a folder and its subfolders: four fifths for training and a fifth for tests, by seed.

    ``lockstep data split`` gives other parts for the same seed. To judge by its manifest, train by its manifest.

    Raises:
        ValueError: If the folder does not exist or has fewer than five traces.

    """
    names = traces_of(folder)
    if len(names) < 5:
        message = f"--traces {folder}: expected at least five traces, found {len(names)}"
        raise ValueError(message)
    order = np.random.default_rng([seed, 0x5B117]).permutation(len(names))
    cut = len(names) * 4 // 5
    return sorted(names[index] for index in order[:cut]), sorted(names[index] for index in order[cut:])


def split_names(manifest: Path, fold: int | None = None) -> tuple[list[str], list[str]]:
    """The traces of a manifest of ``lockstep data split``: those for training, and those for judging.

    With ``fold``, counted from 1, the parts of that walk-forward fold; otherwise four fifths and the rest. A relative
    folder in the manifest is resolved from the working directory, or else from the manifest's folder.

    Raises:
        ValueError: If the file is not such a manifest or lacks the fold, or a trace is missing or has changed.

    """
    try:
        split = json.loads(manifest.read_bytes())
        folder = Path(split["folder"])
        of_each = [split] if fold is None else list(split["walk_forward"])
        parts = [tuple([str(name) for name in part[which]] for which in ("train", "test")) for part in of_each]
        hashes = {str(entry["path"]): str(entry["sha256"]) for entry in split["files"]}
        unknown = next((name for part in parts for names in part for name in names if name not in hashes), None)
        if unknown is not None:
            raise ValueError(f"`files` lacks {unknown}")
    except KeyError as error:
        raise ValueError(f"--split {manifest}: not a manifest of `lockstep data split` ({error} is missing)") from error
    except (ValueError, TypeError) as error:
        raise ValueError(f"--split {manifest}: not a manifest of `lockstep data split` ({error})") from error
    if fold is not None and fold > len(parts):
        raise ValueError(f"--fold {fold}: --split {manifest} has only {len(parts)} folds")
    train, test = parts[(fold or 1) - 1]
    if fold is not None and not (train and test):
        message = f"--fold {fold}: --split {manifest} with {len(hashes)} traces has {len(train)} to train on"
        raise ValueError(f"{message} and {len(test)} to judge by; six parts require six traces")
    if not folder.is_dir():
        folder = manifest.parent / folder
    for name in train + test:
        path = folder / name
        if not path.is_file():
            raise ValueError(f"--split {manifest}: trace {path} is missing")
        if content_hash(path) != hashes[name]:
            message = f"--split {manifest}: {path} has changed since the split (SHA-256 differs): "
            raise ValueError(message + "restore it or split the folder again")
    return [str(folder / name) for name in train], [str(folder / name) for name in test]


def check_apart(parts: Iterable[tuple[list[str], list[str]]]) -> None:
    """Refuses test files that are also training files, as between a folder and a manifest or two manifests.

    Raises:
        ValueError: If a file is for training in one of ``parts`` and for judging in another.

    """
    known = list(parts)
    trained = {Path(name).resolve() for train, _ in known for name in train}
    for _, test in known:
        for name in test:
            if Path(name).resolve() in trained:
                message = f"{name} would be trained on and judged by: --traces and --split, or two --split, "
                raise ValueError(message + "split one folder differently; use one of them")
