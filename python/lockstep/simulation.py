"""Calls in virtual time, from Python: the same calls as those of ``lockstep simulate``, to the byte."""

import json
import os
import re
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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

Codec = Literal["functional", "conventional", "modelled"]

_FOLLOWER = "receiver-estimate"
"""What reports call the controller that follows an estimator from elsewhere."""


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
    """What was run: every option that bears on what comes of it, None where it was not given or means nothing in this
    call. ``simulate(**config)`` runs the call again."""
    json: str
    """The document that ``lockstep simulate --json`` writes."""

    @property
    def report(self) -> "CallReport":
        """The document with types; requires the extra `lab`."""
        call_log = imported("lockstep.call_log", "`report`", "lab")
        report: CallReport = imported("msgspec", "`report`", "lab").json.decode(self.json, type=call_log.CallReport)
        return report


_OF_THE_LOG = ("session_log", "session_labels")
"""Arguments that are no options of the call."""


def _refuse_session(folder: Any, labels: Any) -> None:
    """Refuses what is no folder for a session log, or no labels, before the call runs."""
    if folder is not None and not (isinstance(folder, str | os.PathLike) and os.fspath(folder)):
        raise ValueError(f"session_log: {folder!r} names no folder")
    pairs = labels.items() if isinstance(labels, Mapping) else [(labels, None)]
    if labels is not None and not all(isinstance(word, str) for pair in pairs for word in pair):
        raise ValueError(f"session_labels: {labels!r} are no names with text for each, such as {{'place': 'Ulm'}}")
    if labels and folder is None:
        raise ValueError("`session_labels` mean nothing without `session_log`")


def _write_session(
    log: ModuleType, folder: str | os.PathLike[str], document: dict[str, Any], known: dict[str, Any], seconds: Table
) -> None:
    """Writes the log of a simulated call: the same call with the same labels has the same number."""
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

    The arguments are the options of ``lockstep simulate``, whose help says more of each; what is not given is as there.
    Each may also be a word as on the command line, such as ``loss="5%"``.
    The same arguments give the same call, from here and from the command line. It runs without the interpreter's lock.

    Args:
        trace: Capacity from sender to receiver: a file, or words such as ``constant:500kbps``.
        codec: Which kind of codec the sender has; ``modelled`` is short for a model of the functional one.
        modelled: Run a model in the place of the codec: no pixels, hundreds of times faster.
        controller: Who decides how much is sent, as ``lockstep controllers`` lists them; or ``program:FILE``; or a
            :class:`lockstep.Controller`, its class, or a function that makes one for each direction.
        latency: How much delay is tolerated in the queue, for ``sprout`` and ``lockstep``: `"low"`, `"balanced"` or
            `"quality"`.
        model: The model of a learned controller, an ONNX file, in the place of the one that comes with it.
        max_bitrate: The most that is sent in the long run: a rate such as `"5mbps"`, `"auto"` or `"none"`.
        tuning: Tuned constants to override, for research, such as ``{"silence.margin": 0.2}``; ``lockstep controllers
            --constants`` lists them.
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
        grace_period: What Salsify takes out of the time between two arrivals: `"none"` or `"link-idle"`.
        encode_time: How long coding takes, a file that ``lockstep bench encode-time`` wrote.
        encode_ms: Virtual time that a menu of two candidates takes, in place of what was measured.
        decode_ms: Virtual time that decoding a frame takes.
        feedback_ms: Least time between two acknowledgements; 0 for one after each fragment.
        two_way: Have another call go the opposite way at the same time; its scores are in the report's ``opposite``.
        audio: Sound beside the pictures: `"tone"`, which ``True`` means too, `"silence"`, or a WAV file.
        python: Interpreter for the estimator's file; this one if not given.
        estimator_limit: Longest time of one answer of the estimator's file, in real seconds.
        vmaf: Measure VMAF of what is shown; takes an ffmpeg with libvmaf, which ``LOCKSTEP_VMAF`` may name.
        bound: Compute an upper bound on QoE_d that no controller exceeds in this call; for modelled calls.
        session_log: Leave a log of the session in this folder, as ``--session-log`` does (``docs/sessions.md``).
        session_labels: What is known of the session: ``place``, ``access``, ``hour``, and any others.

    Raises:
        ValueError: If an argument is wrong, or a trace or a clip is not there; it says which values there are.
        lockstep.EstimatorError: If the estimator's file is not there or cannot be loaded, if it raises something, takes
            longer than ``estimator_limit``, or answers what is no bandwidth. It is a ``RuntimeError``.
        lockstep.alphartc.UnusableError: If an object answers what is no bandwidth. What it raises comes as it is.
        RuntimeError: If the call fails in another way.
        Exception: What a controller in Python raises, with its traceback and a note of the event.
        KeyboardInterrupt: If the call is interrupted, also while an estimator's file hangs.

    """
    given = dict(locals())  # whatever the arguments are: none can be left out or misspelt
    for name in _OF_THE_LOG:
        given.pop(name)
    options = {name: value for name, value in given.items() if value is not None}
    _refuse_session(session_log, session_labels)
    log = None if session_log is None else imported("lockstep.sessions.log", "`session_log`", "lab")
    known = {} if log is None else log.labelled(session_labels or {})  # wrong ones are refused before the call
    asked = None
    if estimator is not None and not isinstance(estimator, str | os.PathLike):
        asked = options.pop("estimator")
        if not isinstance(asked, Estimator):
            raise ValueError(
                f"estimator: {shortened(asked)} is neither a file nor an object with report_states and "
                "get_estimated_bandwidth"
            )
        if controller not in (None, _FOLLOWER):
            raise ValueError("`estimator` cannot be used with `controller`: an estimator comes with its own")
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
