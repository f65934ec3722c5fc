"""What comes of a controller in calls on traces that it was not trained on, beside what WebRTC does."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lockstep.simulation import Codec, simulate

CODECS: tuple[Codec, ...] = ("functional", "conventional")
MEASURES = ("qoe_d", "p95_ms", "ssim_db", "throughput_kbps", "link_used", "network_bob")
"""Quality of experience as delay-sensitive people have it, 95th percentile of video delay, quality, rate, use, and the
network score with the weights of BoB's paper (70 at most)."""


def measure(
    controller: str, codec: Codec, trace: str, *, seconds: float, model: Path | None = None
) -> dict[str, float]:
    """The scores of one modelled call."""
    call = simulate(
        trace, controller=controller, codec=codec, modelled=True, seconds=seconds, model=model, clip="generated:640x360"
    )
    scores = call.scores
    return {
        "qoe_d": scores["qoe_d"],
        "p95_ms": scores["video_delay_ms"]["p95"],
        "ssim_db": scores["ssim_db"]["mean"],
        "throughput_kbps": scores["throughput_bps"] / 1e3,
        "link_used": scores["link_utilisation"],
        "network_bob": (scores.get("network") or {}).get("bob", 0.0),
    }


def judge(
    controller: str,
    model: Path | None,
    traces: Sequence[str],
    *,
    seconds: float = 60.0,
    beside: Sequence[str] = ("gcc",),
) -> dict[str, Any]:
    """Mean and worst scores over ``traces`` of ``controller`` and of those ``beside`` it, with either codec."""
    table: dict[str, Any] = {"calls": len(traces), "seconds": seconds}
    for name, own in ((controller, model), *((other, None) for other in beside)):
        for codec in CODECS:
            rows = [measure(name, codec, trace, seconds=seconds, model=own) for trace in traces]
            values = {key: np.array([row[key] for row in rows]) for key in MEASURES}
            table[f"{name}, {codec}"] = {
                **{key: round(float(column.mean()), 3) for key, column in values.items()},
                "worst_qoe_d": round(float(values["qoe_d"].min()), 3),
                "worst_p95_ms": round(float(values["p95_ms"].max()), 1),
            }
    return table
