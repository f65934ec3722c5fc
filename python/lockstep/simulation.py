"""Calls in virtual time, from Python: the same calls as those of ``lockstep simulate``, to the byte."""

import json
import os
import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import msgspec

from lockstep import _lockstep
from lockstep._lockstep import Table
from lockstep.alphartc.estimator import Estimator, exchange
from lockstep.call_log import CallReport

Codec = Literal["functional", "conventional", "modelled"]


@dataclass(frozen=True)
class Simulated:
    """A finished call. Calls that went the same way are equal, and what a call left can be pickled and copied."""

    scores: dict[str, Any]
    """The scores by the names that they have in the JSON of ``lockstep simulate``."""
    frames: Table
    """The per-frame log: one row a captured frame, times in seconds since the call's start."""
    series: Table
    """Rates and delays over time."""
    counters: dict[str, dict[str, int]]
    """Counters of sender, receiver, decoder and links."""
    config: dict[str, Any]
    """What was run."""
    json: str
    """The document that ``lockstep simulate --json`` writes."""

    @property
    def report(self) -> CallReport:
        """The document with types."""
        return msgspec.json.decode(self.json, type=CallReport)


def simulate(  # noqa: PLR0913
    trace: str | os.PathLike[str] | None = None,
    *,
    codec: Codec | None = None,
    modelled: bool = False,
    controller: str | None = None,
    latency: str | None = None,
    max_bitrate: str | None = None,
    estimator: str | os.PathLike[str] | Estimator | None = None,
    clip: str | os.PathLike[str] | None = None,
    seconds: float | None = None,
    seed: int | None = None,
    reverse: str | os.PathLike[str] | None = None,
    queue: str | None = None,
    ecn: bool = False,
    queue_packets: int | None = None,
    queue_bytes: int | None = None,
    delay_ms: float | None = None,
    jitter_ms: float | None = None,
    loss: float | None = None,
    reverse_loss: float | None = None,
    burst_loss: tuple[float, float] | None = None,
    loss_at: Iterable[tuple[float, float]] = (),
    reorder: tuple[float, float] | None = None,
    menu: str | None = None,
    fit_passes: int | None = None,
    preset: str | None = None,
    grace_period: str | None = None,
    encode_ms: float | None = None,
    decode_ms: float | None = None,
    python: str | os.PathLike[str] | None = None,
    estimator_limit: float | None = None,
    vmaf: bool = False,
) -> Simulated:
    """Runs a call in virtual time.

    The arguments are the options of ``lockstep simulate``, whose help says more of each; what is not given is as there.
    The same arguments give the same call, from here and from the command line. It runs without the interpreter's lock.

    Args:
        trace: Capacity from sender to receiver: a file, or words such as ``constant:500kbps``.
        codec: Which kind of codec the sender has; ``modelled`` is short for a model of the functional one.
        modelled: Run a model in the place of the codec: no pixels, hundreds of times faster.
        controller: Who decides how much is sent, as ``lockstep controllers`` lists them.
        latency: How much delay is tolerated in the queue, for ``sprout``: `"low"`, `"balanced"` or `"quality"`.
        max_bitrate: The most that is sent in the long run: a rate such as `"5mbps"`, `"auto"` or `"none"`.
        estimator: An estimator written for AlphaRTC instead: its file, which runs in a process of its own, in virtual
            time; or an object, which is asked in this process and sees the clock on the wall.
        clip: The pictures; of a modelled call, only their size and rate count.
        seconds: Scored length of the call.
        seed: Seed of everything random.
        reverse: Capacity from receiver to sender.
        queue: How queues drop packets.
        ecn: Mark instead of dropping, where both ends understand that; for the queues `"codel"` and `"pie"`.
        queue_packets: Packets that each queue holds.
        queue_bytes: Bytes that each queue holds, instead.
        delay_ms: Propagation delay each way.
        jitter_ms: Mean of an additional, exponentially distributed delay.
        loss: Share of packets lost at random, 0-1.
        reverse_loss: The same on the reverse link.
        burst_loss: Probabilities that a burst of losses begins, and that it ends.
        loss_at: Starts and lengths, in seconds, of times in which everything is lost.
        reorder: Share of packets that come late, and how late in milliseconds.
        menu: What the encoder offers for a budget: `"fit"`, `"serial"` or `"parallel"`.
        fit_passes: How many times a picture may be coded to fit.
        preset: How hard the encoder works.
        grace_period: What Salsify takes out of the time between two arrivals.
        encode_ms: Virtual time that coding a picture takes.
        decode_ms: Virtual time that decoding a frame takes.
        python: Interpreter for the estimator's file; this one if not given.
        estimator_limit: Longest time of one answer of the estimator's file, in real seconds.
        vmaf: Measure VMAF of what is shown; takes an ffmpeg with libvmaf, which ``LOCKSTEP_VMAF`` may name.

    Raises:
        ValueError: If an argument is wrong, or a trace or a clip is not there; it says which values there are.
        lockstep.EstimatorError: If the estimator's file is not there or cannot be loaded, if it raises something, takes
            longer than ``estimator_limit``, or answers what is no bandwidth. It is a ``RuntimeError``.
        lockstep.alphartc.UnusableError: If an object answers what is no bandwidth. What it raises comes as it is.
        RuntimeError: If the call fails in another way.
        KeyboardInterrupt: If the call is interrupted, also while an estimator's file hangs.

    """
    path = os.fspath(estimator) if isinstance(estimator, str | os.PathLike) else None
    asked = None if path is not None or estimator is None else estimator
    if asked is not None and controller is not None:
        raise ValueError("an estimator comes with its own controller; give one of the two")
    if path is not None and python is None:
        python = os.environ.get("LOCKSTEP_PYTHON") or sys.executable
    options: dict[str, object] = {
        "trace": trace,
        "codec": "functional" if codec == "modelled" else codec,
        "controller": controller,
        "latency": latency,
        "max_bitrate": max_bitrate,
        "estimator": path,
        "clip": clip,
        "seconds": seconds,
        "seed": seed,
        "reverse": reverse,
        "queue": queue,
        "queue_packets": queue_packets,
        "queue_bytes": queue_bytes,
        "delay_ms": delay_ms,
        "jitter_ms": jitter_ms,
        "loss": loss,
        "reverse_loss": reverse_loss,
        "burst_loss": None if burst_loss is None else ",".join(_word(share) for share in burst_loss),
        "reorder": None if reorder is None else f"{_word(reorder[0])},{_word(reorder[1])}ms",
        "menu": menu,
        "fit_passes": fit_passes,
        "preset": preset,
        "grace_period": grace_period,
        "encode_ms": encode_ms,
        "decode_ms": decode_ms,
        "python": python,
        "estimator_limit": estimator_limit,
    }
    words = [f"--{name.replace('_', '-')}={_word(value)}" for name, value in options.items() if value is not None]
    words += [f"--loss-at={_word(start)}s+{_word(length)}s" for start, length in loss_at]
    if modelled or codec == "modelled":
        words.append("--modelled")
    if ecn:
        words.append("--ecn")
    if vmaf:
        words.append("--vmaf")
    text, frames, series = _lockstep.simulate(words, estimator=asked, exchange=None if asked is None else exchange)
    document = json.loads(text)
    scored, wanted = document["scored_seconds"], document["config"]["seconds"]
    if scored < wanted - 1e-6:  # times are whole nanoseconds; what was asked for need not be
        warnings.warn(f"the pictures ended after {scored:g} s of the {wanted:g} s asked for", stacklevel=2)
    apart = ("lockstep", "kind", "seed", "config", "counters", "series")
    return Simulated(
        scores={name: value for name, value in document.items() if name not in apart},
        frames=frames,
        series=series,
        counters=document["counters"],
        config=document["config"],
        json=text,
    )


def _word(value: object) -> str:
    """The value as a word of the command line; numbers exactly, and without an exponent."""
    if isinstance(value, float):
        return f"{Decimal(repr(value)):f}"
    if isinstance(value, Path | os.PathLike):
        return os.fspath(value)
    return str(value)
