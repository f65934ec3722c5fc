"""Calls in virtual time from Python: byte-identical to those of ``lockstep simulate``."""

import json
import os
import re
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from lockstep import _lockstep
from lockstep._lockstep import Table
from lockstep.alphartc.estimator import Estimator, exchange
from lockstep.alphartc.worker import shortened
from lockstep.distribution import imported

if TYPE_CHECKING:
    from lockstep.call_log import CallReport
    from lockstep.controllers import ControllerFactory

Codec = Literal["functional", "conventional", "av1", "modelled"]

_FOLLOWER = "receiver-estimate"
"""Report name of the controller that follows an estimator at the receiver."""


@dataclass(frozen=True)
class Simulated:
    """A finished call. Equal calls compare equal; a call can be pickled and copied."""

    scores: dict[str, Any]
    """The scores, named as in the JSON of ``lockstep simulate``."""
    frames: Table
    """The per-frame log: one row for each captured frame, times in seconds since the call's start."""
    series: Table
    """Rates and delays over time."""
    counters: dict[str, dict[str, int]]
    """Counters of sender, receiver, decoder and links."""
    config: dict[str, Any]
    """The configuration: every option that affects the result; None if it was not given or does not apply.
    ``simulate(**config)`` repeats the call."""
    json: str
    """The document that ``lockstep simulate --json`` writes."""

    @property
    def report(self) -> "CallReport":
        """The document as a typed object; requires the extra `lab`."""
        call_log = imported("lockstep.call_log", "`report`", "lab")
        report: CallReport = imported("msgspec", "`report`", "lab").json.decode(self.json, type=call_log.CallReport)
        return report


_OF_THE_LOG = ("session_log", "session_labels")
"""Arguments that are not options of the call."""


def _refuse_session(folder: Any, labels: Any) -> None:
    """Refuses an invalid folder or invalid labels of a session log before the call runs."""
    if folder is not None and not (isinstance(folder, str | os.PathLike) and os.fspath(folder)):
        raise ValueError(f"session_log: expected the path of a folder, found {folder!r}")
    pairs = labels.items() if isinstance(labels, Mapping) else [(labels, None)]
    if labels is not None and not all(isinstance(word, str) for pair in pairs for word in pair):
        raise ValueError(
            f"session_labels: expected a mapping of names to texts such as {{'place': 'Ulm'}}, found {labels!r}"
        )
    if labels and folder is None:
        raise ValueError("`session_labels` requires `session_log`")


def _make_folder(folder: str | os.PathLike[str]) -> None:
    """Makes the folder of a session log. The reason for a failure is known before the call runs."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"session_log: cannot make the folder: {error.strerror or error}"
        name = os.fspath(folder)
        raise OSError(error.errno, reason, name if len(name) <= 80 else f"{name[:77]}...") from error
    except ValueError as error:
        raise ValueError(f"session_log: cannot make the folder {shortened(folder)}: {error}") from error


def _write_session(
    log: ModuleType, folder: str | os.PathLike[str], document: dict[str, Any], known: dict[str, Any], seconds: Table
) -> None:
    """Writes the log of a simulated call; the same call with the same labels gets the same session number."""
    config = document["config"]
    words = [json.dumps(what, sort_keys=True) for what in (config, known)]
    clip = re.fullmatch(r"generated:(\d+)x(\d+)(?:@.*)?", str(config["clip"]))
    size = {"width": int(clip[1]), "height": int(clip[2])} if clip else {}
    session = {
        "session": log.session_number(document["kind"], *words),
        "kind": document["kind"],
        "seen_from": "both",
        "program": f"lockstep {document['lockstep']}",
        "controller": str(config["controller"]),
        "codec": str(config["codec"]),
        "seed": document["seed"],
    }
    log.write_session(folder, session | size | known, seconds.to_polars())


def simulate(  # noqa: PLR0913
    trace: str | os.PathLike[str] | None = None,
    *,
    codec: Codec | None = None,
    modelled: bool = False,
    controller: "str | ControllerFactory | None" = None,
    latency: str | None = None,
    model: str | os.PathLike[str] | None = None,
    max_bitrate: str | None = None,
    tuning: Mapping[str, float] | str | None = None,
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
    loss_at: Iterable[tuple[float, float]] | None = None,
    reorder: tuple[float, float] | None = None,
    menu: str | None = None,
    fit_passes: int | None = None,
    preset: str | None = None,
    grace_period: str | None = None,
    as_published: str | None = None,
    encode_time: str | os.PathLike[str] | None = None,
    encode_ms: float | None = None,
    decode_ms: float | None = None,
    feedback_ms: float | None = None,
    two_way: bool = False,
    audio: str | os.PathLike[str] | bool | None = None,
    python: str | os.PathLike[str] | None = None,
    estimator_limit: float | None = None,
    vmaf: bool = False,
    bound: bool = False,
    session_log: str | os.PathLike[str] | None = None,
    session_labels: Mapping[str, str] | None = None,
) -> Simulated:
    """Runs a call in virtual time.

    The arguments are the options of ``lockstep simulate`` with the same defaults; its help describes each one. Text as
    on the command line works too, such as ``loss="5%"``. Equal arguments give the same call here and on the command
    line. The call runs without the interpreter's lock.

    Args:
        trace: Capacity from sender to receiver: a file, or text such as ``constant:500kbps``.
        codec: Kind of codec; ``modelled`` is short for a model of the functional one.
        modelled: Run a codec model instead of the codec: no pixels, hundreds of times faster.
        controller: A name that ``lockstep controllers`` lists; or ``program:FILE``; or a
            :class:`lockstep.Controller`, its class, or a function that makes one for each direction.
        latency: Tolerated queueing delay for ``sprout`` and ``lockstep``: `"low"`, `"balanced"` or `"quality"`.
        model: ONNX file for a learned controller, instead of the shipped one.
        max_bitrate: Maximum long-term bit rate: a rate such as `"5mbps"`, `"auto"` or `"none"`.
        tuning: Tuned constants to override, for research, such as ``{"silence.margin": 0.2}``; ``lockstep controllers
            --constants`` lists them.
        estimator: An estimator written for AlphaRTC: a file, which runs in a separate process in virtual time, or
            an object, which runs in this process and sees the wall clock.
        clip: The pictures to send; for a modelled call only their size and rate matter.
        seconds: Scored length of the call.
        seed: Seed of all random numbers.
        reverse: Capacity from receiver to sender.
        queue: Queue discipline.
        ecn: Mark packets instead of dropping them, if both ends support it; for the queues `"codel"` and `"pie"`.
        queue_packets: Packets that each queue holds.
        queue_bytes: Bytes that each queue holds, instead of packets.
        delay_ms: Propagation delay each way.
        jitter_ms: Mean of an additional, exponentially distributed delay.
        loss: Share of packets lost at random, 0-1.
        reverse_loss: The same on the reverse link.
        burst_loss: Probabilities that a loss burst begins and ends.
        loss_at: Starts and lengths, in seconds, of outages.
        reorder: Share of packets that are delayed, and their delay in milliseconds.
        menu: Candidates that the encoder makes for a budget: `"fit"`, `"serial"` or `"parallel"`.
        fit_passes: Maximum number of coding passes of a picture towards its budget.
        preset: Effort of the encoder: ``auto``, ``real-time``, a level from ``1`` to ``8``, or ``quality``.
        grace_period: Time that Salsify subtracts from the gap between two arrivals: `"none"`, `"link-idle"` or
            `"sender"`.
        as_published: A published system to follow to the letter: `"salsify"`, `"salsify-frame-target"`,
            `"salsify-second-target"` or `"bob"`.
        encode_time: File of coding times from ``lockstep bench encode-time``.
        encode_ms: Virtual time of coding a menu of two candidates, instead of measured times.
        decode_ms: Virtual time of decoding a frame.
        feedback_ms: Minimum time between two acknowledgements; 0 sends one after each fragment.
        two_way: Run a second call in the opposite direction; its scores are in the report's ``opposite``.
        audio: Sound: `"tone"` (or ``True``), `"silence"`, or a WAV file.
        python: Interpreter for the estimator's file (default: ``LOCKSTEP_PYTHON``, else this one).
        estimator_limit: Time limit for one answer of the estimator's file, in real seconds.
        vmaf: Measure VMAF of the displayed video; requires an ffmpeg with libvmaf, which ``LOCKSTEP_VMAF`` may
            name.
        bound: Compute an upper bound on QoE_d for any controller in this call; for modelled calls.
        session_log: Write a session log to this folder, as ``--session-log`` does (``docs/how-to/sessions.md``).
        session_labels: Labels of the session: ``place``, ``access``, ``hour``, and any others.

    Raises:
        ValueError: If an argument is invalid, or a trace or a clip is missing; the message lists the valid values.
        lockstep.EstimatorError: If the estimator's file is missing, does not load, raises, exceeds
            ``estimator_limit`` or returns an invalid bandwidth. It is a ``RuntimeError``.
        lockstep.alphartc.UnusableError: If an object returns an invalid bandwidth. Its own exceptions pass
            unchanged.
        RuntimeError: If the call fails in another way.
        Exception: If a controller in Python raises; with its traceback and a note that names the event.
        KeyboardInterrupt: If the call is interrupted, also while an estimator's file hangs.

    """
    given = dict(locals())  # `locals` includes every argument under its own name
    for name in _OF_THE_LOG:
        given.pop(name)
    options = {name: value for name, value in given.items() if value is not None}
    _refuse_session(session_log, session_labels)
    log = None if session_log is None else imported("lockstep.sessions.log", "`session_log`", "lab")
    known = {} if log is None else log.labelled(session_labels or {})  # refuses invalid labels before the call
    if session_log is not None:
        _make_folder(session_log)
    asked = None
    if estimator is not None and not isinstance(estimator, str | os.PathLike):
        asked = options.pop("estimator")
        if not isinstance(asked, Estimator):
            raise ValueError(
                f"estimator: {shortened(asked)} is not a file and not an object with report_states and "
                "get_estimated_bandwidth"
            )
        if controller not in (None, _FOLLOWER):
            raise ValueError("`estimator` cannot be used with `controller`: an estimator has its own controller")
    if asked is None and estimator is not None and python is None:
        options["python"] = os.environ.get("LOCKSTEP_PYTHON") or sys.executable
    own = None
    if controller is not None and not isinstance(controller, str):
        controllers = imported("lockstep.controllers", "`controller`", "lab")
        if isinstance(controller, controllers.Controller) or callable(controller):
            own = controllers.registered(controller)
            options["controller"] = own.name
    if codec == "modelled":
        options |= {"codec": "functional", "modelled": True}
    text, frames, series, session = _lockstep.simulate(
        options,
        estimator=asked,
        exchange=None if asked is None else exchange,
        controller=own,
        session=session_log is not None,
    )
    document = json.loads(text)
    if log is not None and session_log is not None and session is not None:
        _write_session(log, session_log, document, known, session)
    scored, wanted = document["scored_seconds"], document["config"]["seconds"]
    if scored < wanted - 1e-6:  # the call rounds times to nanoseconds
        warnings.warn(f"the clip ended after {scored:g} s of the requested {wanted:g} s", stacklevel=2)
    apart = ("lockstep", "kind", "seed", "config", "counters", "series")
    return Simulated(
        scores={name: value for name, value in document.items() if name not in apart},
        frames=frames,
        series=series,
        counters=document["counters"],
        config=document["config"],
        json=text,
    )
