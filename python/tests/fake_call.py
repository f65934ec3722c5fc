"""A fake call, for tests of code that reads call logs, and for looking at reports."""

import json
from pathlib import Path
from typing import Any

import numpy
import polars

OUTCOMES = ("skipped_over_budget", "skipped_stale_source", "skipped_busy")


def fake_frames(seconds: float = 30.0, rate: float = 30.0, seed: int = 1) -> tuple[polars.DataFrame, dict[str, Any]]:
    """The frame log of a call of `seconds` at `rate` frames per second, and the series of its link."""
    random = numpy.random.default_rng(seed)
    bins = int(seconds * 10)
    walk = numpy.cumsum(random.normal(0.0, 0.09, bins))
    capacity = 4.0e6 * numpy.exp(walk - walk.mean()) + 2.0e5
    if bins > 120:
        capacity[100:112] *= 0.12
    rows: list[dict[str, Any]] = []
    estimate, queue_free, last_display, sent_number = capacity[0] * 0.5, 0.0, 0.0, 0
    for capture in range(int(seconds * rate)):
        captured = capture / rate
        now = capacity[min(int(captured * 10), bins - 1)]
        estimate += 0.15 * (now - estimate)
        queueing = max(queue_free - captured, 0.0)
        budget = max(estimate * (0.1 - queueing) / 8.0, 0.0)
        row: dict[str, Any] = dict.fromkeys(
            ("frame", "quantizer", "budget", "limited_by", "size", "fragments", "parity", "encode_started_at",
             "sent_at", "completed_at", "displayed_at", "video_delay", "ssim", "psnr_db")
        )  # fmt: skip
        row |= {"target_bps": int(0.9 * estimate), "estimate_bps": int(estimate)}
        row |= {"capture": capture, "captured_at": captured, "outcome": "sent", "key_frame": capture == 0}
        row |= {"recovery": False, "candidates": "", "encode_started_at": captured + 0.0004, "budget": int(budget)}
        row["limited_by"] = "deadline" if queueing > 0.02 else "link_estimate"
        wanted = estimate / rate / 8.0 * random.normal(0.92, 0.12)
        size = max(int(wanted), 300)
        quantizer = int(numpy.clip(150.0 - 12.0 * numpy.log(size), 4, 127))
        row["candidates"] = f"{int(size * 1.2)};{size}"
        if size > budget:
            row["outcome"] = OUTCOMES[0]
        elif random.random() < 0.01:
            row["outcome"] = OUTCOMES[1 + capture % 2]
        else:
            row |= {"size": size, "quantizer": quantizer, "frame": sent_number, "fragments": size // 1200 + 1}
            row |= {"parity": 0}
            sent_number += 1
            row["sent_at"] = captured + 0.018 + 0.006 * random.random()
            queue_free = max(queue_free, row["sent_at"]) + 8.0 * size / now
            if random.random() > 0.006:
                completed = queue_free + 0.020
                last_display = max(last_display, completed + 0.005)
                decibels = 6.0 + 1.35 * numpy.log(size) - 3.0 * (capture < 10) + random.normal(0.0, 0.25)
                row |= {"completed_at": completed, "displayed_at": last_display}
                row |= {"ssim": 1.0 - 10.0 ** (-decibels / 10.0), "psnr_db": decibels * 2.4}
            else:
                row["recovery"] = False
        rows.append(row)
        if len(rows) > 4 and rows[-4]["outcome"] == "sent" and rows[-4]["displayed_at"] is None:
            row["recovery"] = row["outcome"] == "sent"
    next_display = seconds + 0.5
    for row in reversed(rows):
        next_display = row["displayed_at"] or next_display
        row["video_delay"] = next_display - row["captured_at"]
    sent, received = numpy.zeros(bins), numpy.zeros(bins)
    queueing_delays: list[float | None] = [None] * bins
    for row in rows:
        for moments, total in ((row["sent_at"], sent), (row["completed_at"], received)):
            if moments is not None and int(moments * 10) < bins:
                total[int(moments * 10)] += row["size"] * 80.0
        if row["completed_at"] is not None and int(row["completed_at"] * 10) < bins:
            queueing_delays[int(row["completed_at"] * 10)] = max(row["completed_at"] - row["sent_at"] - 0.02, 0.0) * 1e3
    series = {
        "interval_ms": 100,
        "capacity_bps": capacity.astype(int).tolist(),
        "sent_bps": sent.astype(int).tolist(),
        "received_bps": received.astype(int).tolist(),
        "queueing_delay_ms": queueing_delays,
        "target_bps": [row["target_bps"] for row in rows[:: int(rate / 10)]][:bins],
        "estimate_bps": [row["estimate_bps"] for row in rows[:: int(rate / 10)]][:bins],
    }
    return polars.DataFrame(rows, infer_schema_length=None), series


def fake_report(frames: polars.DataFrame, series: dict[str, Any], seconds: float = 30.0) -> dict[str, Any]:
    """The JSON document of the call with this log and these series."""
    delays = frames["video_delay"].to_numpy() * 1e3
    shown = frames.filter(polars.col("displayed_at").is_not_null())
    displayed = shown["video_delay"].to_numpy() * 1e3
    durations = numpy.diff(shown["displayed_at"].to_numpy())
    sent = frames.filter(polars.col("outcome") == "sent")
    ssim = shown["ssim"].to_numpy()
    throughput = float(numpy.mean(series["received_bps"]))
    return {
        "lockstep": "0.1.0",
        "kind": "call",
        "seed": 1,
        "config": {
            "clip": "generated:1280x720@30",
            "trace": "cellular:mean=4mbps,seed=1",
            "reverse": None,
            "queue_packets": 256,
            "delay_ms": 20.0,
            "loss": 0.005,
            "menu": "serial",
            "preset": "real-time",
            "grace_period": "link-idle",
            "seconds": seconds,
        },
        "video_delay_ms": {
            "p50": float(numpy.quantile(delays, 0.5)),
            "mean": float(delays.mean()),
            "p95": float(numpy.quantile(delays, 0.95)),
        },
        "displayed_delay_ms": {
            "p50": float(numpy.quantile(displayed, 0.5)),
            "mean": float(displayed.mean()),
            "p95": float(numpy.quantile(displayed, 0.95)),
        },
        "video_delay_floor_ms": {"p50": 33.0, "mean": 36.0, "p95": 47.0},
        "near_floor": 0.31,
        "ssim_db": {
            "p25": float(numpy.quantile(-10.0 * numpy.log10(1.0 - ssim), 0.25)),
            "mean": float(-10.0 * numpy.log10(1.0 - ssim.mean())),
        },
        "psnr_db": {"mean": 36.1},
        "throughput_bps": int(throughput),
        "link_utilisation": throughput / float(numpy.mean(series["capacity_bps"])),
        "frames": {
            "captured": len(frames),
            "sent": len(sent),
            "skipped": len(frames) - len(sent),
            "displayed": len(shown),
            "key": int(sent["key_frame"].sum()),
            "recovery": int(sent["recovery"].sum()),
        },
        "limited_by": dict(frames["limited_by"].value_counts(normalize=True).iter_rows()),
        "fill": 0.91,
        "overshoot_ratio": 0.004,
        "frames_per_second": len(shown) / seconds,
        "harmonic_frame_rate": float(durations.sum() / (durations**2).sum()),
        "freezes": {"count": 2, "total_seconds": 0.42, "longest_seconds": 0.23},
        "stall_minutes_per_hour": 0.84,
        "qoe_p": 4.12,
        "qoe_d": 3.87,
        "one_way_delay_ms": {"p50": 41.0, "mean": 48.0, "p95": 97.0},
        "queueing_delay_ms": {"p50": 19.0, "mean": 27.0, "p95": 75.0},
        "packet_loss": 0.006,
        "target_smoothness_bps": 91_000.0,
        "estimate_smape_percent": 17.5,
        "estimate_smape": 0.175,
        "estimate_accuracy": 0.84,
        "network": {"delay": 0.79, "rate": 0.77, "loss": 0.006, "challenge": 61.0, "bob": 56.3},
        "vmaf": 82.0,
        "vmaf_missing": None,
        "total": {"challenge": 85.6, "bob": 80.9},
        "counters": {
            "sender": {"frames_sent": len(sent), "datagrams_sent": 9120, "acknowledgements": 9001},
            "receiver": {"datagrams": 9050, "frames_complete": len(shown), "decode_errors": 0},
            "link": {"delivered": 9050, "dropped_queue": 12, "lost_random": 58},
        },
        "series": series,
    }


def write_fake_call(folder: Path, seconds: float = 30.0, frames_name: str = "frames.csv") -> tuple[Path, Path]:
    """Writes `call.json` and a frame log to `folder`; returns their paths."""
    frames, series = fake_frames(seconds)
    call_path, frames_path = folder / "call.json", folder / frames_name
    call_path.write_text(json.dumps(fake_report(frames, series, seconds)))
    if frames_path.suffix == ".parquet":
        frames.write_parquet(frames_path)
    else:
        frames.write_csv(frames_path, float_precision=6)
    return call_path, frames_path
