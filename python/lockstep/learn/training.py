"""Common parts of training runs: folder, checkpoints, logs, progress, and the exported model.

A checkpoint contains everything that the rest of the run depends on, including the state of each random generator.
Checkpoints are replaced atomically. A run resumes from its last checkpoint and reaches the same weights.
"""

import argparse
import errno
import io
import json
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from torch import nn
from torch.utils.tensorboard import SummaryWriter

from lockstep import _lockstep
from lockstep.learn.arguments import SETTING, check_setting, known_setting, parser, setting_of
from lockstep.learn.devices import choose, on_cpu, random_state, set_random_state
from lockstep.learn.judging import judge
from lockstep.learn.traces import check_apart, family_traces, generated_traces, split_folder, split_names

CHECKPOINT = "checkpoint.pt"
CURVE = "curve.png"
LOCK = "training.lock"
"""File in a run's folder that is locked during a training."""

FEEDBACK_MS = (0.0, 20.0, 50.0, 100.0)
"""Minimum times between two acknowledgements, milliseconds; each training call takes one of them.

The observations depend on the frequency of feedback. Receivers may send it rarely, and future calls may use another
interval.
"""
TESTS = 40
"""Number of generated test traces."""
OPSET = 18
"""ONNX operator set of the models; `lockstep` supports 9 to 18."""
Parts = tuple[list[str], list[str]]
"""Traces for training, and traces for judging."""


class Run:
    """A training run with exclusive use of its folder: a context that ends with the training.

    The folder gets its setting together with the first other file, so that wrong arguments can be corrected before.
    """

    def __init__(self, algorithm: str, arguments: argparse.Namespace) -> None:
        """Opens the folder and seeds all random generators.

        Raises:
            ValueError: If the folder has a run with other or unknown settings, or another process trains in it, or the
                device does not exist.

        """
        self.algorithm = algorithm
        self.device = choose(arguments.device)
        self.folder: Path = arguments.output
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(self.folder)
        try:
            self._open(arguments)
        except BaseException:
            self._lock.release()
            raise

    def _open(self, arguments: argparse.Namespace) -> None:
        self.setting = setting_of(self.algorithm, arguments)
        if (self.folder / SETTING).exists():
            known = known_setting(self.folder, self.algorithm)
            if not arguments.export:
                check_setting(self.folder, known, self.setting)
            self.setting = known
        elif (self.folder / CHECKPOINT).exists():
            message = f"{self.folder} has a {CHECKPOINT}, but no {SETTING} with the settings: "
            raise ValueError(message + f"restore {SETTING} or name another folder")
        self.quiet: bool = arguments.quiet
        self._judged: int = arguments.judged
        self._export: bool = arguments.export
        self.began = time.monotonic()
        self.spent = 0.0
        seed = int(self.setting["seed"])
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        torch.set_num_threads(max(1, arguments.threads))
        # Deterministic algorithms sum in a fixed order.
        torch.use_deterministic_algorithms(mode=True)
        self._logs: SummaryWriter | None = None
        self._folder_parts: list[Parts] | None = None
        self._manifests: list[Parts] | None = None
        self.curves: dict[str, list[tuple[int, float]]] = {}

    def __enter__(self) -> "Run":
        """The run."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the logs and unlocks the folder."""
        if self._logs is not None:
            self._logs.close()
        self._lock.release()

    def options(self, given: argparse.Namespace) -> argparse.Namespace:
        """The arguments with the setting of the run in the folder."""
        kept = {name: value for name, value in self.setting.items() if name != "algorithm"}
        return argparse.Namespace(**{**vars(given), **kept})

    def traces(self, *, alone: bool = True) -> Parts:
        """Disjoint sets of traces for training and judging.

        Without ``alone``, the caller adds those of :meth:`manifests` and other training traces.

        Raises:
            ValueError: If the folder of ``--traces`` or a manifest of ``--split`` is invalid, or a trace is in both
                sets. With ``alone``, also if there is nothing to train on.

        """
        seed, count = int(self.setting["seed"]), int(self.setting["generated"])
        family = self.setting["family"]
        training = generated_traces(seed, count) if family is None else family_traces(family, seed, count)
        # Training uses no seed of tests.
        test = generated_traces(seed + 1_000_003, TESTS)
        if self._folder_parts is None:
            folder = self.setting["traces"]
            self._folder_parts = [] if folder is None else [split_folder(Path(folder), seed)]
        check_apart(self._folder_parts + self.manifests())
        for names, judged in self._folder_parts + (self.manifests() if alone else []):
            training, test = training + names, test + judged
        if alone and not training:
            raise ValueError("cannot train without traces: --generated 0 without --traces or --split")
        return training, test

    def manifests(self) -> list[Parts]:
        """Training and judging traces of each manifest of ``--split``, or of its ``--fold``.

        Raises:
            ValueError: If a manifest is invalid, its traces have changed, or ``--fold`` has no manifest.

        """
        if self._manifests is None:
            fold, names = self.setting["fold"], self.setting["split"]
            if fold is not None and not names:
                raise ValueError(f"--fold {fold} requires a manifest: add --split")
            self._manifests = [split_names(Path(name), fold) for name in names]
        return self._manifests

    def judged(self, test: list[str]) -> list[str]:
        """The traces to judge by: up to ``--judged`` generated ones, of the folder, and of each manifest."""
        split = [names for _, names in self.manifests()]
        others = {name for names in split for name in names}
        own = [name for name in test if name not in others]
        parts = [own[: min(self._judged, TESTS)], own[TESTS:][: self._judged], *(one[: self._judged] for one in split)]
        return list(dict.fromkeys(name for part in parts for name in part))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Logs values of a step for TensorBoard and for the curves."""
        self._write_setting()
        if self._logs is None:
            self._logs = SummaryWriter(str(self.folder / "tensorboard"))
        for name, value in values.items():
            self._logs.add_scalar(name, value, step)
            self.curves.setdefault(name, []).append((step, float(value)))

    def show(self, done: float, text: str) -> None:
        """Shows the progress: ``done`` of 1."""
        if self.quiet:
            return
        filled = round(30 * min(max(done, 0.0), 1.0))
        seconds = self.seconds()
        left = seconds / done - seconds if done > 0.01 else float("nan")
        line = f"{self.algorithm} [{'#' * filled}{'.' * (30 - filled)}] {100 * done:5.1f} %  {seconds:5.0f} s"
        line += f"  {left:5.0f} s left  {text}" if left == left else f"  {text}"  # noqa: PLR0124
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[2K{line[:150]}")
        else:
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    def seconds(self) -> float:
        """Duration of the run, seconds, including earlier parts."""
        return self.spent + time.monotonic() - self.began

    def save(self, state: dict[str, Any]) -> None:
        """Writes a checkpoint: ``state``, and the state of the random generators."""
        self._write_setting()
        kept = {
            "state": state,
            "curves": self.curves,
            "seconds": self.seconds(),
            "random": random.getstate(),
            "numpy": np.random.get_state(),
            "torch": torch.get_rng_state(),
            "device": str(self.device),
            "device_random": random_state(self.device),
        }
        # Serialise to memory first: on a full disk, PyTorch's own writer reports a misleading error.
        written = io.BytesIO()
        torch.save(kept, written)
        with _replacing(self.folder / CHECKPOINT) as temporary:
            temporary.write_bytes(written.getbuffer())
        if self._logs is not None:
            self._logs.flush()

    def load(self) -> dict[str, Any] | None:
        """The state of the last checkpoint; restores the random generators. None if there is no checkpoint.

        Raises:
            ValueError: If the file is damaged.

        """
        path = self.folder / CHECKPOINT
        if not path.exists():
            return None
        with _reading(path):
            # The file is this program's own, and contains more than tensors.
            # Load to the CPU from any device; nets and optimisers copy the values to their own devices.
            kept = torch.load(path, map_location="cpu", weights_only=False)
            random.setstate(kept["random"])
            np.random.set_state(kept["numpy"])
            torch.set_rng_state(kept["torch"])
            began = torch.device(kept.get("device", str(self.device)))
            if began.type == self.device.type:
                set_random_state(self.device, kept.get("device_random"))
            self.curves, self.spent = kept["curves"], kept["seconds"]
            state: dict[str, Any] = kept["state"]
        if began.type != self.device.type and not self._export:
            now = f"{self.folder} was trained on {began} until here and continues on {self.device}"
            print(f"{now}; use --device {began} for the weights of a run on one device", file=sys.stderr)
        return state

    def save_array(self, name: str, **arrays: NDArray[Any]) -> None:
        """Saves arrays next to the checkpoint."""
        self._write_setting()
        named: dict[str, Any] = dict(arrays)
        with _replacing(self.folder / f"{name}.npz") as temporary, temporary.open("wb") as file:
            np.savez(file, **named)

    def _write_setting(self) -> None:
        """Writes the setting of the run before its first other file."""
        path = self.folder / SETTING
        if not path.exists():
            _write(path, json.dumps(self.setting, indent=2) + "\n")

    def load_array(self, name: str) -> dict[str, NDArray[Any]]:
        """Arrays of :meth:`save_array`.

        Raises:
            ValueError: If the file is missing or damaged.

        """
        path = self.folder / f"{name}.npz"
        with _reading(path), path.open("rb") as file, np.load(file) as kept:
            return {key: kept[key] for key in kept.files}

    def close(self) -> None:
        """Ends the line of progress."""
        if not self.quiet and sys.stderr.isatty():
            sys.stderr.write("\n")

    def export(  # noqa: PLR0913
        self,
        model: nn.Module,
        *,
        shape: tuple[int, ...],
        names: tuple[str, str],
        metadata: Mapping[str, str],
        card: Mapping[str, Any],
        examples: torch.Tensor,
    ) -> Path:
        """Writes the model as ONNX, a card that describes it, and reference outputs for a few inputs (for tests)."""
        path = self.folder / f"{self.algorithm}.onnx"
        write_onnx(model, path, shape=shape, names=names, metadata={"lockstep.controller": self.algorithm, **metadata})
        with torch.no_grad():
            outputs = on_cpu(model)(examples)
        reference = {
            "inputs": [[_short(value) for value in row.flatten().tolist()] for row in examples],
            "outputs": [row.flatten().tolist() for row in outputs],
        }
        _write(self.folder / f"{self.algorithm}.reference.json", json.dumps(reference, separators=(",", ":")) + "\n")
        described = {
            "controller": self.algorithm,
            "lockstep": _lockstep.version(),
            "opset": OPSET,
            "bytes": path.stat().st_size,
            "input": {"name": names[0], "shape": [1, *shape]},
            "output": {"name": names[1], "shape": list(outputs[:1].shape)},
            **card,
            "setting": self.setting,
            "training_seconds": round(self.seconds()),
            "pytorch": torch.__version__,
            "device": self.device.type,
        }
        _write(self.folder / f"{self.algorithm}.json", json.dumps(described, indent=2) + "\n")
        return path

    def export_judged(
        self,
        model: nn.Module,
        test: list[str],
        *,
        card: Mapping[str, Any],
        references: tuple[str, ...] = ("gcc",),
        **given: Any,
    ) -> Path:
        """As :meth:`export`, with scores of the model and of other controllers in calls over ``test`` in the card."""
        path = self.export(model, card=card, **given)
        scores = judge(self.algorithm, path, self.judged(test), references=references)
        return self.export(model, card={**card, "scores": scores}, **given)

    def trained_on(self) -> str:
        """The training traces in words."""
        family = f" of the family {self.setting['family']}" if self.setting["family"] else ""
        words = [f"{self.setting['generated']} generated traces{family}"]
        if self.setting["traces"]:
            words.append(f"four fifths of {self.setting['traces']}")
        if self.setting["split"]:
            fold = "" if self.setting["fold"] is None else f", fold {self.setting['fold']},"
            words.append(f"the training part{fold} of {', '.join(self.setting['split'])}")
        return " and ".join(words)

    def draw(self, title: str, names: Iterable[str]) -> None:
        """Draws curves of logged values into `curve.png`."""
        import altair  # noqa: PLC0415 -- the import takes a second
        import polars  # noqa: PLC0415

        rows = [
            {"step": step, "value": value, "what": name} for name in names for step, value in self.curves.get(name, [])
        ]
        if not rows:
            return
        line = altair.Chart(polars.DataFrame(rows)).mark_line(point=True).encode(x="step:Q", y="value:Q")
        panel = line.properties(width=420, height=140)
        chart = panel.facet(row=altair.Row("what:N", title=None)).resolve_scale(y="independent").properties(title=title)
        chart.save(str(self.folder / CURVE), scale_factor=2)


def train(algorithm: str, arguments: list[str] | None, train_in: Callable[[Run, argparse.Namespace], int]) -> int:
    """Trains with ``train_in`` and ``arguments``, in the folder that they name; returns the exit status."""
    options = parser(algorithm).parse_args(arguments)
    with Run(algorithm, options) as run:
        return train_in(run, run.options(options))


def _short(value: float) -> float:
    """The number with the fewest digits that give the same 32-bit float."""
    return float(str(np.float32(value)))


def write_onnx(
    model: nn.Module, path: Path, *, shape: tuple[int, ...], names: tuple[str, str], metadata: Mapping[str, str]
) -> None:
    """Writes ``model`` as ONNX with one input of one call, one output, and metadata.

    The model itself does not change.
    """
    import contextlib  # noqa: PLC0415
    import logging  # noqa: PLC0415
    import warnings  # noqa: PLC0415

    import onnx  # noqa: PLC0415

    model = on_cpu(model)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with _replacing(path) as temporary:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            torch.onnx.export(
                model,
                (torch.zeros(1, *shape),),
                str(temporary),
                input_names=[names[0]],
                output_names=[names[1]],
                opset_version=OPSET,
                dynamo=True,
                external_data=False,
                verbose=False,
            )
        graph = onnx.load(str(temporary))
        # The exporter's own notes contain paths of this machine, so they are removed.
        del graph.metadata_props[:]
        for node in graph.graph.node:
            del node.metadata_props[:]
            node.doc_string = ""
        for value in [*graph.graph.value_info, *graph.graph.input, *graph.graph.output, *graph.graph.initializer]:
            del value.metadata_props[:]
        del graph.graph.metadata_props[:]
        onnx.helper.set_model_props(graph, dict(metadata))
        onnx.checker.check_model(graph)
        onnx.save(graph, str(temporary))


def _write(path: Path, text: str) -> None:
    with _replacing(path) as temporary:
        temporary.write_text(text)


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A temporary file next to ``path`` that replaces it when complete, and is removed after a failure."""
    temporary = path.with_name(f"{path.name}.new")
    try:
        yield temporary
        temporary.replace(path)
    except OSError as error:
        why = "no space left on the disk" if error.errno == errno.ENOSPC else error.strerror or str(error)
        raise OSError(f"cannot write {path}: {why}; the previous file is unchanged") from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Reports any failure as a damaged file of the run: a truncated pickle may raise anything."""
    try:
        yield
    except Exception as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        message = f"{path} is damaged ({why}): restore it, or delete {CHECKPOINT} to start again"
        raise ValueError(message) from error


def _locked(folder: Path) -> FileLock:
    """The lock of a run's folder; it ends with its process.

    Raises:
        ValueError: If another process has it.

    """
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        message = f"another training uses {folder}: wait for its end or name another folder"
        raise ValueError(message) from error
    return lock
