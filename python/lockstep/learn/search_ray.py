"""Runs the trainings of a search on a Ray cluster, one task for each.

A machine of the cluster requires the same version of Lockstep with its extra ``learn``. It also requires the data of
the trainings under the same paths. An error names what it lacks. If it has access to the folder of the search, it
trains there and resumes unfinished trainings. Otherwise it trains in a temporary folder and sends the files back.
Samples (``*.npz``) stay there, because they can be as large as memory.
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
"""Suffixes of files that are not sent back."""
MARK = "search.mark"
"""File in a search's folder by which a machine detects that it has access to the folder."""


@dataclass(frozen=True)
class Task:
    """One training."""

    algorithm: str
    words: tuple[str, ...]
    """Its command line arguments without the folder."""
    folder: Path
    """Its absolute folder on the origin."""
    data: Mapping[str, str]
    """Files and folders in the arguments, with hashes of their contents."""


@dataclass(frozen=True)
class Origin:
    """The machine that started the search."""

    version: str
    """Version of Lockstep."""
    directory: Path
    """Base of relative paths."""
    search: Path
    """Absolute folder of the search."""
    mark: str
    """Content of the file `MARK` in it."""


def data_of(options: argparse.Namespace) -> dict[str, str]:
    """The files and folders in the arguments of a training, with hashes of their contents."""
    values = [getattr(options, name, None) for name in DATA]
    names = [str(name) for value in values for name in (value if isinstance(value, list) else [value])]
    return {name: tree_hash(Path(name)) for name in names if Path(name).exists()}


def train_on(
    address: str, tasks: Sequence[Task], search: Path, *, cores: int, gpus: int
) -> Iterator[tuple[int, ClusterError | None]]:
    """Trains each of ``tasks`` on the cluster at ``address``; yields the index of each finished one, and its error.

    Raises:
        ClusterError: If Ray or the cluster is missing, or the cluster has too few cores or GPUs.

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
    """Trains on this machine of the cluster, in a separate process; returns the files to send back.

    Raises:
        ClusterError: If the machine lacks something, or the training fails.

    """
    host = platform.node()
    if _lockstep.version() != origin.version:
        message = f"{host} has Lockstep {_lockstep.version()}, but the search started with {origin.version}"
        raise ClusterError(f"{message}; install the same version")
    for name, known in task.data.items():
        path = origin.directory / name
        if not path.exists():
            raise ClusterError(f"{host} has no {path}; copy it to every machine of the cluster")
        if tree_hash(path) != known:
            raise ClusterError(f"{path} on {host} differs from the one on the machine that started the search")
    with tempfile.TemporaryDirectory() as own:
        shared = _sees(origin)
        folder = task.folder if shared else Path(own) / "run"
        folder.mkdir(parents=True, exist_ok=True)
        # Without a request for a GPU, Ray may have given it to another task.
        device = [] if gpus else ["--device", "cpu"]
        words = [*task.words, *device, "--output", str(folder), "--quiet"]
        command = [sys.executable, "-m", "lockstep.learn", task.algorithm, *words]
        there = origin.directory if origin.directory.is_dir() else Path(own)
        log = folder / "training.log"
        done: subprocess.CompletedProcess[Any]
        with log.open("ab") as output:
            done = subprocess.run(command, stdout=output, stderr=output, cwd=there, check=False)  # noqa: S603
        if done.returncode != 0 or not (folder / f"{task.algorithm}.onnx").exists():
            lines = log.read_text(errors="replace").strip().splitlines() or [f"status {done.returncode}"]
            raise ClusterError(f"the training {task.folder.name} failed on {host}: {lines[-1]}")
        if shared:
            return {}
        files = [path for path in folder.rglob("*") if path.is_file() and path.suffix not in LEFT]
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def _sees(origin: Origin) -> bool:
    """Whether this machine has access to the folder of the search."""
    try:
        return (origin.search / MARK).read_text() == origin.mark
    except OSError:
        return False
