"""Texts of a call's report: its setting, the headline numbers, and every score with its definition."""

from dataclasses import dataclass
from typing import Any

from lockstep.call_log import (
    LIMITS,
    CallReport,
    DelayScores,
    FreezeScores,
    NetworkScores,
    PsnrScores,
    SsimScores,
    TotalScores,
)
from lockstep.quantities import (
    MISSING,
    bit_rate,
    count,
    decibels,
    frame_rate,
    milliseconds,
    minutes_per_hour,
    number,
    percent,
    seconds,
)

_KINDS = {"call": "Live call", "simulate": "Simulated call", "modelled": "Modelled call"}
_MENUS = {
    "serial": "candidates coded one after another",
    "parallel": "candidates coded in parallel",
    "fit": "frames fitted to their budgets",
}


@dataclass(frozen=True)
class Headline:
    """One of the numbers at the top of a report."""

    label: str
    value: str
    note: str


@dataclass(frozen=True)
class Score:
    """One number of a call with a one-sentence definition."""

    name: str
    value: str
    definition: str


def title(report: CallReport) -> str:
    """The kind of call, its duration and its trace."""
    parts = [_KINDS.get(report.kind, report.kind or "Call")]
    seconds = _number(report.config, "seconds") if report.scored_seconds is None else report.scored_seconds
    if seconds is not None:
        parts.append(f"of {seconds:g} s")
    if trace := report.config.get("trace"):
        parts.append(f"over {_trace(str(trace))}")
    return " ".join(parts)


def description(report: CallReport) -> str:
    """The setting of the call in plain words, from its configuration."""
    config = report.config
    where = {
        "call": "Sender and receiver ran in real time, with an emulated link between them",
        "simulate": "Sender, link and receiver ran in virtual time, with the real codec",
        "modelled": "Sender, link and receiver ran in virtual time, with a codec model instead of the codec",
    }
    sentences = [where.get(report.kind, "A call ran") + "."]
    if clip := config.get("clip"):
        sentences.append(f"{_clip(str(clip))} was sent.")
    sentences.append(_link(config))
    if config.get("codec") == "conventional":
        sentences.append("The codec was a conventional one with a target bit rate; lost packets were retransmitted.")
    codec = []
    if preset := config.get("preset"):
        level = str(preset)
        codec.append(f"effort level {level}" if level.isdigit() else f"the {level.replace('-', ' ')} preset")
    if menu := config.get("menu"):
        codec.append(_MENUS.get(str(menu), f"the {menu} menu"))
    if codec:
        sentences.append(f"The encoder ran with {', '.join(codec)}.")
    return " ".join(sentence for sentence in sentences if sentence)


def headlines(report: CallReport) -> list[Headline]:
    """The most important numbers."""
    delay = report.video_delay_ms or DelayScores()
    ssim = report.ssim_db or SsimScores()
    frames = report.frames
    return [
        Headline("Video delay", milliseconds(delay.p50), f"median; p95 {milliseconds(delay.p95)}"),
        Headline("SSIM", decibels(ssim.mean), f"mean; p25 {decibels(ssim.p25)}"),
        Headline("Throughput", bit_rate(report.throughput_bps), f"{percent(report.link_utilisation)} of the link"),
        Headline(
            "Frames shown", count(frames.displayed), f"of {count(frames.captured)}; {count(frames.skipped)} skipped"
        ),
        _held_back(report.limited_by),
        Headline("Fill", percent(report.fill), f"of the budget; {percent(report.overshoot_ratio)} over it"),
        Headline("Stalls", minutes_per_hour(report.stall_minutes_per_hour), _freezes_note(report.freezes)),
        Headline("Recovery frames", count(frames.recovery), f"after a loss; key frames: {count(frames.key)}"),
        Headline("QoE", number(report.qoe_d), f"weighted for delay; {number(report.qoe_p)} weighted for quality"),
    ]


def _held_back(limits: dict[str, float]) -> Headline:
    """The limit that decided most frames, and the second one."""
    known = sorted(((share, LIMITS[limit]) for limit, share in limits.items() if limit in LIMITS), reverse=True)
    if not known:
        return Headline("Held back by", MISSING, "of the frames")
    (share, name), *others = known
    note = f"{name}" if not others else f"{name}; {percent(others[0][0])} {others[0][1]}"
    return Headline("Held back by", percent(share), note)


def _freezes_note(freezes: FreezeScores | None) -> str:
    if freezes is None or freezes.count is None:
        return "of frozen picture"
    if freezes.count == 0:
        return "of frozen picture; no freeze"
    number_of = "1 freeze" if freezes.count == 1 else f"{count(freezes.count)} freezes"
    return f"{number_of}, the longest {seconds(freezes.longest_seconds)}"


def scores(report: CallReport) -> list[Score]:
    """Every score of the call with its definition; scores without a value in this kind of call are omitted."""
    return [
        *_video_scores(report),
        *_smoothness_scores(report),
        *_floor_scores(report),
        *_packet_scores(report),
        *_rate_scores(report),
        *_total_scores(report),
    ]


def _video_scores(report: CallReport) -> list[Score]:
    delay = report.video_delay_ms or DelayScores()
    ssim = report.ssim_db or SsimScores()
    psnr = report.psnr_db or PsnrScores()
    frames = report.frames
    bound = (
        ""
        if report.qoe_d_bound is None
        else f" The upper bound for any controller in this call is {number(report.qoe_d_bound)}."
    )
    return [
        Score(
            "Video delay, median",
            milliseconds(delay.p50),
            "For every captured frame, the time until it or a later one is displayed; half of the frames take longer. "
            "Definition: the text of Salsify's paper (NSDI 2018, section 5.1).",
        ),
        Score("Video delay, mean", milliseconds(delay.mean), "The mean of the same time over all captured frames."),
        Score("Video delay, 95th percentile", milliseconds(delay.p95), "One frame in twenty takes longer than this."),
        *_displayed_scores(report),
        Score(
            "SSIM, mean",
            decibels(ssim.mean),
            "Structural similarity of displayed to captured luma, as −10 log₁₀(1 − SSIM) of the mean over the "
            "displayed frames.",
        ),
        Score("SSIM, first quartile", decibels(ssim.p25), "One displayed frame in four looks worse than this."),
        Score("PSNR, mean", decibels(psnr.mean), "Peak signal-to-noise ratio of the displayed frames' luma."),
        Score("Throughput", bit_rate(report.throughput_bps), "Bytes of all datagrams that reached the receiver."),
        Score("Link utilisation", percent(report.link_utilisation), "Those bytes as a share of the link's capacity."),
        Score("Frames captured", count(frames.captured), "Pictures that the source captured."),
        Score("Frames sent", count(frames.sent), "Pictures that were sent as a candidate."),
        Score(
            "Frames skipped",
            count(frames.skipped),
            "Pictures that were not sent: no candidate fitted the budget, the source state was lost meanwhile, or a "
            "newer picture came before the encoder was free.",
        ),
        Score("Frames displayed", count(frames.displayed), "Frames shown at the receiver."),
        Score("Key frames", count(frames.key), "Sent frames that depend on no earlier state."),
        Score("Recovery frames", count(frames.recovery), "Frames coded from an acknowledged state after a loss."),
        Score("Fill", percent(report.fill), "Mean of size over budget of sent frames within their budget."),
        Score("Overshoot", percent(report.overshoot_ratio), "Share of sent frames that exceed their budget."),
        Score(
            "QoE weighted for quality",
            number(report.qoe_p),
            "Concerto's linear model of mean delay and mean SSIM for applications that favour quality (MobiCom 2019, "
            "Table 2).",
        ),
        Score(
            "QoE weighted for delay", number(report.qoe_d), f"The same for applications that favour low delay.{bound}"
        ),
    ]


def _displayed_scores(report: CallReport) -> list[Score]:
    rows = []
    if (displayed := report.displayed_delay_ms) is not None:
        rows += [
            Score(
                "Displayed delay, median",
                milliseconds(displayed.p50),
                "The time from capture to display of displayed frames only, as in Salsify's published figures; skipped "
                "and lost frames have none.",
            ),
            Score("Displayed delay, mean", milliseconds(displayed.mean), "The mean over the displayed frames."),
            Score(
                "Displayed delay, 95th percentile",
                milliseconds(displayed.p95),
                "One displayed frame in twenty takes longer.",
            ),
        ]
    return rows


def _smoothness_scores(report: CallReport) -> list[Score]:
    rows = []
    if report.frames_per_second is not None:
        rows.append(Score("Frame rate", frame_rate(report.frames_per_second), "Displayed frames per second."))
    if report.harmonic_frame_rate is not None:
        definition = (
            "The sum of the display times of pictures over the sum of their squares (W3C webrtc-stats, "
            "totalInterFrameDelay and totalSquaredInterFrameDelay): equal to the frame rate for evenly spaced "
            "pictures, and far lower for uneven ones."
        )
        rows.append(Score("Harmonic frame rate", frame_rate(report.harmonic_frame_rate), definition))
    if (freezes := report.freezes) is not None:
        definition = (
            "Pictures displayed for at least three times the mean of the last 30, and at least 150 ms longer than it "
            "(W3C webrtc-stats, freezeCount); the time before the first and after the last picture counts in the same "
            "way."
        )
        rows += [
            Score("Freezes", count(freezes.count), definition),
            Score("Longest freeze", seconds(freezes.longest_seconds), "Duration of the longest freeze."),
        ]
    definition = "Total duration of freezes, minutes per hour of the call."
    rows.append(Score("Stalls", minutes_per_hour(report.stall_minutes_per_hour), definition))
    return rows


def _floor_scores(report: CallReport) -> list[Score]:
    rows = []
    if (floor := report.video_delay_floor_ms) is not None:
        definition = (
            "The video delay of a frame of one small packet at each capture, if it had the link to itself; half of the "
            "frames have a higher one."
        )
        if report.kind == "call":
            definition += " Coding time counts as zero."
        rows += [
            Score("Floor of the video delay, median", milliseconds(floor.p50), definition),
            Score("Floor of the video delay, mean", milliseconds(floor.mean), "The mean over all captured frames."),
            Score(
                "Floor of the video delay, 95th percentile", milliseconds(floor.p95), "One in twenty has a higher one."
            ),
        ]
    if report.near_floor is not None:
        definition = "Share of the captured frames whose video delay is at most 1.5 times their own floor."
        rows.append(Score("Frames near the floor", percent(report.near_floor), definition))
    return rows


def _packet_scores(report: CallReport) -> list[Score]:
    rows = []
    one_way, queueing = report.one_way_delay_ms, report.queueing_delay_ms
    if one_way is not None:
        rows += [
            Score(
                "One-way delay, median",
                milliseconds(one_way.p50),
                "Time of a packet from entering the link to leaving it; half of the delivered packets take longer.",
            ),
            Score("One-way delay, 95th percentile", milliseconds(one_way.p95), "One packet in twenty takes longer."),
        ]
    if queueing is not None:
        rows += [
            Score("Queueing delay, median", milliseconds(queueing.p50), "The part of the one-way delay in queues."),
            Score("Queueing delay, 95th percentile", milliseconds(queueing.p95), "One packet in twenty waits longer."),
        ]
    if report.packet_loss is not None:
        definition = "Share of the packets sent in the scored time that did not arrive within a second after its end."
        rows.append(Score("Packet loss", percent(report.packet_loss), definition))
    return rows


def _rate_scores(report: CallReport) -> list[Score]:
    rows = []
    if (smoothness := report.target_smoothness_bps) is not None:
        definition = "Mean step of the controller's target from one tenth of a second to the next; lower is steadier."
        rows.append(Score("Target, mean step", bit_rate(smoothness), definition))
    if (smape := report.estimate_smape_percent) is not None:
        definition = (
            "Symmetric mean absolute percentage error of the estimate e against the capacity c: the mean of "
            "|e − c| / ((e + c) / 2), 0 % to 200 %."
        )
        rows.append(Score("Estimate, sMAPE", percent(smape / 100.0), definition))
    if (accuracy := report.estimate_accuracy) is not None:
        definition = "BoB's prediction accuracy (IEEE TMM 2022): 1 − sMAPE / 2, where sMAPE is 0 to 2."
        rows.append(Score("Estimate, accuracy", percent(accuracy), definition))
    return rows


def _total_scores(report: CallReport) -> list[Score]:
    rows = []
    if (network := report.network) is not None:
        rows += _network_scores(network)
    if report.vmaf is not None:
        definition = "Netflix's quality score of displayed against captured video, 0 to 100."
        rows.append(Score("VMAF", number(report.vmaf, 1), definition))
    elif report.vmaf_missing is not None:
        rows.append(Score("VMAF", MISSING, f"Not measured: {report.vmaf_missing.removeprefix('no VMAF: ')}."))
    if report.total is not None:
        total: TotalScores = report.total
        definition = "The network score in the challenge's weighting plus 0.3 VMAF, at most 100."
        rows.append(Score("Total, challenge", number(total.challenge, 1), definition))
        definition = "The network score in the weighting of BoB's paper plus 0.3 VMAF, at most 100."
        rows.append(Score("Total, BoB", number(total.bob, 1), definition))
    return rows


def _network_scores(network: NetworkScores) -> list[Score]:
    return [
        Score(
            "Network score, challenge",
            number(network.challenge, 1),
            "Weighted as in the MMSys 2021 challenge on bandwidth estimation, at most 70: "
            f"20 × {number(network.delay)} for delay, 20 × {number(network.rate)} for the received rate, 30 × (1 − "
            f"{number(network.loss, 3)}) for loss.",
        ),
        Score(
            "Network score, BoB",
            number(network.bob, 1),
            "The same parts, weighted as in BoB's paper: 10 for delay, 50 for the rate, 10 for loss.",
        ),
    ]


def configuration(report: CallReport) -> list[tuple[str, str]]:
    """The whole configuration as dotted names and plain values."""
    return [("seed", str(report.seed)), *_flat(report.config)]


def counters(report: CallReport) -> dict[str, list[tuple[str, str]]]:
    """The counters of each end and of the link, by name."""
    return {
        part: [(name.replace("_", " "), count(value)) for name, value in values.items()]
        for part, values in report.counters.items()
        if values
    }


def _flat(values: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{name}.")
        elif not (prefix == "" and name == "seed"):
            rows.append((prefix + name, "not given" if value is None else str(value)))
    return rows


def _number(config: dict[str, Any], name: str) -> float | None:
    value = config.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _trace(trace: str) -> str:
    """A trace for readers: `cellular:mean=4mbps,seed=1` is `a generated cellular trace (...)`, a file its name."""
    kind, colon, details = trace.partition(":")
    if not colon or "/" in kind or "\\" in kind:
        return trace.replace("\\", "/").rsplit("/", 1)[-1]
    return f"a constant {details}" if kind == "constant" else f"a generated {kind} trace ({details})"


def _clip(clip: str) -> str:
    kind, colon, size = clip.partition(":")
    if kind != "generated":
        return clip
    return f"The generated clip at {size.replace('@', ', ')} frames a second" if colon else "The generated clip"


def _link(config: dict[str, Any]) -> str:
    parts = []
    if (delay := _number(config, "delay_ms")) is not None:
        parts.append(f"{delay:g} ms of propagation delay each way")
    if (queue := _number(config, "queue_packets")) is not None:
        parts.append(f"a queue of {queue:g} packets")
    elif (queue := _number(config, "queue_bytes")) is not None:
        parts.append(f"a queue of {count(queue)} bytes")
    if (jitter := _number(config, "jitter_ms")) is not None and jitter > 0:
        parts.append(f"{jitter:g} ms of mean jitter")
    if (loss := _number(config, "loss")) is not None:
        parts.append(f"{percent(loss)} random loss" if loss > 0 else "no random loss")
    return f"The link had {', '.join(parts)}." if parts else ""
