"""Scores of a controller in calls on test traces, compared with other controllers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lockstep.simulation import Codec, simulate

CODECS: tuple[Codec, ...] = ("functional", "conventional")
MEASURES = (
    "qoe_p",
    "qoe_d",
    "p95_ms",
    "ssim_db",
    "throughput_kbps",
    "link_used",
    "packet_loss",
    "stall_minutes_per_hour",
    "smoothness_kbps",
    "network_bob",
)
"""Scores of a call: QoE weighted for quality and for delay; 95th percentile of the video delay; mean SSIM; throughput;
link utilisation; packet loss; stalls; mean change of the target in a tenth of a second; network score with the weights
of BoB's paper, at most 70."""


def measure(  # noqa: PLR0913
    controller: str,
    codec: Codec,
    trace: str,
    *,
    seconds: float,
    model: Path | None = None,
    modelled: bool = True,
) -> dict[str, float]:
    """The scores of one call, modelled or with the codec."""
    call = simulate(
        trace,
        controller=controller,
        codec=codec,
        modelled=modelled,
        seconds=seconds,
        model=model,
        clip="generated:640x360",
    )
    scores = call.scores
    return {
        "qoe_p": scores["qoe_p"],
        "qoe_d": scores["qoe_d"],
        "p95_ms": scores["video_delay_ms"]["p95"],
        "ssim_db": scores["ssim_db"]["mean"],
        "throughput_kbps": scores["throughput_bps"] / 1e3,
        "link_used": scores["link_utilisation"],
        "packet_loss": scores["packet_loss"] or 0.0,
        "stall_minutes_per_hour": scores["stall_minutes_per_hour"],
        "smoothness_kbps": scores["target_smoothness_bps"] / 1e3,
        "network_bob": (scores.get("network") or {}).get("bob", 0.0),
    }


def judge(
    controller: str,
    model: Path | None,
    traces: Sequence[str],
    *,
    seconds: float = 60.0,
    references: Sequence[str] = ("gcc",),
) -> dict[str, Any]:
    """Mean and worst scores over ``traces`` of ``controller`` and of those in ``references``; empty without traces."""
    table: dict[str, Any] = {"calls": len(traces), "seconds": seconds}
    if not traces:
        return table
    for name, own in ((controller, model), *((other, None) for other in references)):
        for codec in CODECS:
            rows = [measure(name, codec, trace, seconds=seconds, model=own) for trace in traces]
            values = {key: np.array([row[key] for row in rows]) for key in MEASURES}
            table[f"{name}, {codec}"] = {
                **{key: round(float(column.mean()), 3) for key, column in values.items()},
                "worst_qoe_d": round(float(values["qoe_d"].min()), 3),
                "worst_p95_ms": round(float(values["p95_ms"].max()), 1),
            }
    return table
