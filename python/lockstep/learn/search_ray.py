"""The trainings of a search on a Ray cluster: a task each.

A machine of the cluster needs Lockstep in the version that it has here, with its extra ``learn``, and all data that the
trainings name, under the same paths: what it lacks is said. Where it sees the folder of the search itself, on a shared
disk or on this machine, it trains there, and goes on where a training was ended. Elsewhere it trains in a folder of
its own, and what comes of it is sent back: all but the samples (``*.npz``), which can be as large as memory.
"""

import argparse
import platform
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lockstep import _lockstep
from lockstep.content_hash import tree_hash
from lockstep.ray_cluster import ClusterError, connect, results

DATA = ("traces", "split", "begin", "tuned_clip", "family")
"""Arguments that may name files and folders."""
LEFT = (".npz", ".lock")
"""What is not sent back."""
MARK = "search.mark"
"""The file of a search's folder by which a machine that sees it knows it."""


@dataclass(frozen=True)
class Task:
    """A training."""

    algorithm: str
    words: tuple[str, ...]
    """What it is told, but for the folder."""
    folder: Path
    """Where it is to be, absolute."""
    data: Mapping[str, str]
    """The files and folders that the words name, and the hashes of what they hold."""


@dataclass(frozen=True)
class Origin:
    """The machine on which the search was begun."""

    version: str
    """Of Lockstep."""
    directory: Path
    """From where relative paths are."""
    search: Path
    """The folder of the search, absolute."""
    mark: str
    """What the file `MARK` there says."""


def data_of(options: argparse.Namespace) -> dict[str, str]:
    """The files and folders that a training is told of, and the hashes of what they hold."""
    values = [getattr(options, name, None) for name in DATA]
    names = [str(name) for value in values for name in (value if isinstance(value, list) else [value])]
    return {name: tree_hash(Path(name)) for name in names if Path(name).exists()}


def train_on(
    address: str, tasks: Sequence[Task], search: Path, *, cores: int, gpus: int
) -> Iterator[tuple[int, ClusterError | None]]:
    """Trains each of ``tasks`` on the cluster at ``address``; gives the place of each that is over, and what failed.

    Raises:
        ClusterError: If there is no Ray, no such cluster, or one with too few cores or GPUs.

    """
    ray = connect(address)
    mark = uuid.uuid4().hex
    search.mkdir(parents=True, exist_ok=True)
    (search / MARK).write_text(mark)
    origin = Origin(_lockstep.version(), Path.cwd(), search, mark)
    try:
        given = [(task, origin, gpus) for task in tasks]
        for place, files in results(ray, train_there, given, cores=cores, gpus=gpus):
            if isinstance(files, ClusterError):
                yield place, files
                continue
            for name, content in files.items():
                path = tasks[place].folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            yield place, None
    finally:
        (search / MARK).unlink(missing_ok=True)


def train_there(task: Task, origin: Origin, gpus: int) -> dict[str, bytes]:
    """Trains on this machine of the cluster, in a process of its own; gives the files that are to be sent back.

    Raises:
        ClusterError: If the machine lacks something, or the training fails.

    """
    host = platform.node()
    if _lockstep.version() != origin.version:
        message = f"{host} has Lockstep {_lockstep.version()}, and {origin.version} is where the search was begun"
        raise ClusterError(f"{message}: install the same")
    for name, known in task.data.items():
        path = origin.directory / name
        if not path.exists():
            raise ClusterError(f"{host} has no {path}: every machine of the cluster needs it there")
        if tree_hash(path) != known:
            raise ClusterError(f"{host} has another {path} than there is where the search was begun")
    with tempfile.TemporaryDirectory() as own:
        shared = _sees(origin)
        folder = task.folder if shared else Path(own) / "run"
        folder.mkdir(parents=True, exist_ok=True)
        # Where nobody asked for a GPU, others may have been given it.
        device = [] if gpus else ["--device", "cpu"]
        words = [*task.words, *device, "--output", str(folder), "--quiet"]
        command = [sys.executable, "-m", "lockstep.learn", task.algorithm, *words]
        there = origin.directory if origin.directory.is_dir() else Path(own)
        log = folder / "training.log"
        done: subprocess.CompletedProcess[Any]
        with log.open("ab") as output:
            done = subprocess.run(command, stdout=output, stderr=output, cwd=there, check=False)  # noqa: S603
        if done.returncode != 0 or not (folder / f"{task.algorithm}.onnx").exists():
            said = log.read_text(errors="replace").strip().splitlines() or [f"status {done.returncode}"]
            raise ClusterError(f"the training {task.folder.name} failed on {host}: {said[-1]}")
        if shared:
            return {}
        files = [path for path in folder.rglob("*") if path.is_file() and path.suffix not in LEFT]
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def _sees(origin: Origin) -> bool:
    """Whether this machine sees the folder of the search."""
    try:
        return (origin.search / MARK).read_text() == origin.mark
    except OSError:
        return False
