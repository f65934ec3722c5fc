"""One run: a program over a link, measured by the ruler; the results, and files with their sources."""

import importlib
import json
import math
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars

import lockstep
from lockstep.testbed import link, machine, quality, ruler, session_log
from lockstep.testbed.processes import pause
from lockstep.testbed.programs import KINDS, Clip, Outcome, Program, Setting, TestbedError, parse
from lockstep.testbed.ruler import Measured, Sight
from lockstep.testbed.y4m import ClipReader

DRAIN_SECONDS = 2.0
"""Time for which reading continues after the last frame that counts."""
MOMENTS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Moments of a run with thumbnails, as shares of its duration."""
BIN_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Run:
    """Settings of one measurement."""

    program: str
    specification: link.LinkSpecification | None
    kind: str
    clip: Clip
    seconds: float
    session: session_log.Log | None = None
    """Destination of the session log, if any."""


def make(name: str) -> Program:
    """The program of this name, for one run.

    Raises:
        TestbedError: If it is unknown, or its requirements are missing.

    """
    named = parse(name)
    module = importlib.import_module(KINDS[named.kind].module)
    program: Program = module.make(named.options)
    return program


def run(plan: Run, folder: Path) -> dict[str, Any]:
    """Runs once; writes `frames.parquet`, `packets.parquet`, `series.parquet` and `details.json` to ``folder``.

    Returns the results. If the machine was the bottleneck, `counted` is false and `reasons` has the reasons.

    Raises:
        TestbedError: If the program or the link cannot run.

    """
    folder.mkdir(parents=True, exist_ok=True)
    program = make(plan.program)
    # A killed browser may still write for a moment.
    with tempfile.TemporaryDirectory(prefix="lockstep-testbed-", ignore_cleanup_errors=True) as work:
        between = link.open_link(plan.kind, plan.specification, Path(work))
        try:
            relayed = isinstance(between, link.RelayLink)
            ends = (between.sender, between.receiver)
            setting = Setting(
                plan.clip, *ends, Path(work), between.through, between.begin, relayed, plan.session is not None
            )
            watch = machine.Watch({**program.start(setting), "driver": os.getpid()})
            _wait(program, between, watch, plan.seconds + DRAIN_SECONDS)
            outcome = program.stop()
            ended = machine.now()
            linked = between.stop()
            return _evaluate(plan, program, outcome, linked, watch, ended, folder)
        finally:
            try:
                program.close()
            finally:
                between.stop()


def _wait(program: Program, between: link.Link, watch: machine.Watch, seconds: float) -> None:
    deadline = machine.now() + seconds
    while (left := deadline - machine.now()) > 0:
        pause(min(1.0, left))
        between.poll()
        program.poll()
        watch.sample()


def _evaluate(  # noqa: PLR0913, PLR0917 - all results of a run
    plan: Run,
    program: Program,
    outcome: Outcome,
    linked: link.LinkOutcome,
    watch: machine.Watch,
    ended: float,
    folder: Path,
) -> dict[str, Any]:
    clip = plan.clip
    if not outcome.shown:
        raise TestbedError(f"{plan.program}: cannot read any barcode in {outcome.unread} displayed pictures")
    # Both ends count in the same round of the clip: the camera's first sight defines the round.
    reference = outcome.previews[0] if outcome.previews else outcome.shown[0].sight
    previews = _unrolled(outcome.previews, clip, reference)
    sights = _unrolled([picture.sight for picture in outcome.shown], clip, reference)
    schedule, late = ruler.fit_schedule(previews, clip.rate)
    first = sights[0].number
    last = first + round(plan.seconds * clip.rate) - 1
    start, end = schedule.at(first), schedule.at(first) + plan.seconds
    # Some programs take longer to stop, and continue to display: all are read for the same time.
    measured = ruler.measure(schedule, sights, first, last, min(ended, end + DRAIN_SECONDS))
    previewed = {sight.number for sight in previews if first <= sight.number <= last}
    missed = 1.0 - len(previewed) / (last - first + 1)

    moments = [start + share * plan.seconds for share in MOMENTS]
    on_screen = [_on_screen(outcome, sights, moment) for moment in moments]
    ssim, thumbnails = quality.qualities(
        clip, outcome.shown, program.pictures(), {key for key in on_screen if key is not None}
    )
    by_number = {
        sight.number: ssim[picture.key]
        for sight, picture in zip(reversed(sights), reversed(outcome.shown), strict=True)
        if picture.key in ssim
    }
    frames = _frames(measured, by_number, start)
    frames.write_parquet(folder / "frames.parquet")
    series, traffic = _traffic(linked, start, end)
    series.write_parquet(folder / "series.parquet")
    if linked.packets is not None:
        linked.packets.with_columns(polars.col("in_at", "out_at") - start).write_parquet(folder / "packets.parquet")
    load = watch.load()
    reasons = machine.bottlenecks(
        lateness_p99_ms=linked.lateness_p99_ms,
        preview_late_p99=ruler.quantile(late, 0.99),
        preview_missed=missed,
        frame_seconds=1.0 / clip.rate,
        waited=load["waited_sender"] + load["waited_receiver"],
        limited=outcome.limited,
    )
    times = [sight.at - sights[0].at for sight in sights if sight.at <= end + DRAIN_SECONDS]
    count, frozen = lockstep.freezes(times, 1.0 / clip.rate)
    reader = ClipReader(clip)
    details = {
        **outcome.details,
        "link": linked.details,
        "moments": [
            {
                "at": share * plan.seconds,
                "shown": thumbnails.get(key) if key is not None else None,
                "original": quality.thumbnail(clip, reader.samples(_captured_by(schedule, first, moment))),
            }
            for share, moment, key in zip(MOMENTS, moments, on_screen, strict=True)
        ],
    }
    (folder / "details.json").write_text(json.dumps(details, default=str))
    if plan.session is not None:
        version = str(outcome.details.get("version", ""))
        data = session_log.RunData(
            clip, plan.specification, linked, frames, start, plan.seconds, version, outcome.session
        )
        session_log.write(plan.session, data, counted=not reasons)
    return {
        "counted": not reasons,
        "reasons": "; ".join(reasons),
        "failed": "",
        **statistics(frames, plan.seconds),
        "freezes": count,
        "frozen_seconds": frozen,
        "unread": outcome.unread,
        **traffic,
        **load,
        "lateness_p99_ms": linked.lateness_p99_ms,
        "preview_late_p50_ms": 1000 * ruler.quantile(late, 0.5),
        "preview_late_p99_ms": 1000 * ruler.quantile(late, 0.99),
        "preview_missed": missed,
        "camera_slipped_ms": 1000 * schedule.slipped(first, last),
        "clock_error_ms": 1000 * outcome.clock_error,
        "read_p99_ms": 1000 * outcome.read_seconds,
        "identical": getattr(program, "identical", None),
        "different": getattr(program, "different", None),
        "version": str(outcome.details.get("version", "")),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def statistics(frames: polars.DataFrame, seconds: float) -> dict[str, Any]:
    """The results of a run from its frames: delays as in the paper and of displayed frames only, and quality."""
    waited = (1000 * frames["waited"]).to_list()
    shown = frames.filter(polars.col("shown_at").is_not_null())
    only = (1000 * (shown["shown_at"] - shown["captured_at"])).to_list()
    ssim = frames["ssim"].drop_nulls().to_list()
    decibels = [quality.in_decibels(value) for value in ssim]
    text = frames["text_ssim"].drop_nulls().to_list()
    return {
        "captured": len(frames),
        "shown": len(shown),
        "shown_per_second": len(shown) / seconds,
        "never_followed": int(frames["open"].sum()),
        **{f"delay_p{share}_ms": ruler.quantile(waited, share / 100) for share in (50, 95, 99)},
        "delay_mean_ms": math.fsum(waited) / len(waited),
        **{f"shown_delay_p{share}_ms": ruler.quantile(only, share / 100) for share in (50, 95)},
        "ssim_db": quality.in_decibels(math.fsum(ssim) / len(ssim)) if ssim else None,
        "ssim_p25_db": ruler.quantile(decibels, 0.25) if ssim else None,
        "text_ssim_db": quality.in_decibels(math.fsum(text) / len(text)) if text else None,
        "ssim_frames": len(ssim),
    }


def _unrolled(sights: list[Sight], clip: Clip, reference: Sight) -> list[Sight]:
    return ruler.unrolled([reference, *sights], clip.frames, clip.rate)[1:]


def _frames(measured: list[Measured], ssim: Mapping[int, tuple[float, float | None]], start: float) -> polars.DataFrame:
    shown = [ssim.get(frame.number) if frame.shown_at is not None else None for frame in measured]
    return polars.DataFrame(
        {
            "number": [frame.number for frame in measured],
            "captured_at": [frame.captured_at - start for frame in measured],
            "shown_at": [None if frame.shown_at is None else frame.shown_at - start for frame in measured],
            "waited": [frame.waited for frame in measured],
            "open": [frame.open for frame in measured],
            "ssim": [values and values[0] for values in shown],
            "text_ssim": [values and values[1] for values in shown],
        },
        schema={
            "number": polars.Int64,
            "captured_at": polars.Float64,
            "shown_at": polars.Float64,
            "waited": polars.Float64,
            "open": polars.Boolean,
            "ssim": polars.Float64,
            "text_ssim": polars.Float64,
        },
    )


def _traffic(linked: link.LinkOutcome, start: float, end: float) -> tuple[polars.DataFrame, dict[str, Any]]:
    """Rates over the link, in bins and in total; only with a packet log."""
    count = max(1, round((end - start) / BIN_SECONDS))
    bins = [index * BIN_SECONDS for index in range(count)]
    if linked.packets is None:
        nothing = polars.DataFrame({"at": bins}).with_columns(
            polars.lit(None, polars.Float64).alias("forward_bps"), polars.lit(None, polars.Float64).alias("reverse_bps")
        )
        return nothing, {"forward_kbps": None, "reverse_kbps": None, "packets_dropped": None}
    forward, reverse = (link.rates(linked.packets, way, start, end, bins) for way in ("forward", "reverse"))
    series = polars.DataFrame({"at": bins, "forward_bps": forward, "reverse_bps": reverse})
    return series, {
        "forward_kbps": math.fsum(forward) / count / 1000,
        "reverse_kbps": math.fsum(reverse) / count / 1000,
        "packets_dropped": link.dropped(linked.packets),
    }


def _on_screen(outcome: Outcome, sights: list[Sight], moment: float) -> int | None:
    """The key of the picture on the screen at this moment."""
    before = [picture.key for picture, sight in zip(outcome.shown, sights, strict=True) if sight.at <= moment]
    return before[-1] if before else None


def _captured_by(schedule: ruler.Schedule, first: int, moment: float) -> int:
    """The number of the newest frame captured by this moment."""
    number = first + max(0, math.floor((moment - schedule.at(first)) * schedule.rate))
    while number > first and schedule.at(number) > moment:
        number -= 1
    return number
