"""Reads the files of `lockstep simulate` and `lockstep call`: a call's JSON document and its per-frame log.

The types here mirror `CallReport` and `FrameRecord` of the Rust crate `call`. Unknown keys are ignored. Keys that
another version does not write are `None` or empty.
"""

import math
from pathlib import Path
from typing import Any

import msgspec
import polars

from lockstep.input_file import bounded, read_bounded

FRAME_COLUMNS: dict[str, type[polars.DataType]] = {
    "capture": polars.Int64,
    "captured_at": polars.Float64,
    "outcome": polars.String,
    "frame": polars.Int64,
    "key_frame": polars.Boolean,
    "recovery": polars.Boolean,
    "quantizer": polars.Int64,
    "effort": polars.Int64,
    "budget": polars.Int64,
    "limited_by": polars.String,
    "size": polars.Int64,
    "candidates": polars.String,
    "fragments": polars.Int64,
    "parity": polars.Int64,
    "encode_started_at": polars.Float64,
    "sent_at": polars.Float64,
    "completed_at": polars.Float64,
    "displayed_at": polars.Float64,
    "video_delay": polars.Float64,
    "ssim": polars.Float64,
    "psnr_db": polars.Float64,
    "text_ssim": polars.Float64,
    "target_bps": polars.Int64,
    "estimate_bps": polars.Int64,
}
"""The columns of a frame log. Times are seconds since the call's start, sizes and budgets bytes, SSIM 0-1."""

LIMITS = {
    "link_estimate": "link estimate",
    "deadline": "deadline: frames in flight",
    "delivered": "recent deliveries",
    "silence": "silence: an outage",
    "short_queue": "short bottleneck queue",
    "ceiling": "maximum bit rate",
    "narrow_path": "narrow path: sound first",
    "sound": "sound's share",
    "messages": "messages' share",
    "parity": "parity's share",
    "coarsest_quantizer": "encoder at its coarsest",
    "finest_quantizer": "encoder at its finest",
}
"""Limits on the size of a frame: values of `limited_by` with display names, in the order of the pipeline."""

REQUIRED_COLUMNS = ("capture", "captured_at", "outcome")
"""The columns that a frame log must have."""

MAX_SSIM_DB = 60.0
"""Level in dB for an SSIM of one, as in the crate `media`."""


class CallLogError(Exception):
    """A file of a call cannot be read; the message names the file and the reason."""


class DelayScores(msgspec.Struct, frozen=True):
    """Delay of frames or packets, milliseconds."""

    p50: float | None = None
    mean: float | None = None
    p95: float | None = None


class SsimScores(msgspec.Struct, frozen=True):
    """SSIM of the displayed frames, dB."""

    p25: float | None = None
    mean: float | None = None


class PsnrScores(msgspec.Struct, frozen=True):
    """Luma PSNR of the displayed frames, dB."""

    mean: float | None = None


class NetworkScores(msgspec.Struct, frozen=True):
    """Network score of the MMSys'21 challenge: its parts, 0-1, and the scores of two weightings, at most 70."""

    delay: float | None = None
    rate: float | None = None
    loss: float | None = None
    challenge: float | None = None
    bob: float | None = None


class TotalScores(msgspec.Struct, frozen=True):
    """Network score plus 0.3 times VMAF, at most 100, in both weightings."""

    challenge: float | None = None
    bob: float | None = None


class FrameCounts(msgspec.Struct, frozen=True):
    """Numbers of frames by outcome."""

    captured: int = 0
    sent: int = 0
    skipped: int = 0
    displayed: int = 0
    key: int = 0
    recovery: int = 0


class FreezeScores(msgspec.Struct, frozen=True):
    """Freezes of a call: their number, their total duration and the longest one, seconds."""

    count: int | None = None
    total_seconds: float | None = None
    longest_seconds: float | None = None


class Series(msgspec.Struct, frozen=True):
    """Rates (bit/s) and delays (milliseconds) over time, one point every `interval_ms`."""

    interval_ms: float = 100.0
    capacity_bps: list[float | None] = []
    sent_bps: list[float | None] = []
    received_bps: list[float | None] = []
    queueing_delay_ms: list[float | None] = []
    target_bps: list[float | None] = []
    estimate_bps: list[float | None] = []

    def __post_init__(self) -> None:
        """Refuses an interval that is not a positive finite time."""
        if not (math.isfinite(self.interval_ms) and self.interval_ms > 0):
            raise ValueError(f"interval_ms is {self.interval_ms}; expected a positive time")


class CallReport(msgspec.Struct, frozen=True):
    """The JSON document of a call: its configuration, scores, counters and series."""

    lockstep: str
    kind: str
    seed: int = 0
    config: dict[str, Any] = {}
    scored_seconds: float | None = None
    video_delay_ms: DelayScores | None = None
    displayed_delay_ms: DelayScores | None = None
    video_delay_floor_ms: DelayScores | None = None
    near_floor: float | None = None
    ssim_db: SsimScores | None = None
    psnr_db: PsnrScores | None = None
    text_ssim_db: float | None = None
    throughput_bps: float | None = None
    link_utilisation: float | None = None
    frames: FrameCounts = FrameCounts()
    limited_by: dict[str, float] = {}
    fill: float | None = None
    overshoot_ratio: float | None = None
    frames_per_second: float | None = None
    harmonic_frame_rate: float | None = None
    freezes: FreezeScores | None = None
    stall_minutes_per_hour: float | None = None
    qoe_p: float | None = None
    qoe_d: float | None = None
    qoe_d_bound: float | None = None
    qoe_d_schedule: float | None = None
    one_way_delay_ms: DelayScores | None = None
    queueing_delay_ms: DelayScores | None = None
    packet_loss: float | None = None
    target_smoothness_bps: float | None = None
    estimate_smape_percent: float | None = None
    estimate_smape: float | None = None
    estimate_accuracy: float | None = None
    network: NetworkScores | None = None
    vmaf: float | None = None
    vmaf_missing: str | None = None
    total: TotalScores | None = None
    counters: dict[str, dict[str, float]] = {}
    series: Series = Series()


def load_call(path: Path) -> CallReport:
    """Reads the JSON document of a call.

    Raises:
        CallLogError: If the file cannot be read or is another document.

    """
    try:
        return msgspec.json.decode(read_bounded(path), type=CallReport)
    except OSError as error:
        raise CallLogError(f"{path}: {error.strerror or error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CallLogError(f"{path} is not the JSON document of a call: {error}") from error


def load_frames(path: Path) -> polars.DataFrame:
    """Reads a frame log, CSV or Parquet by its suffix, with all of `FRAME_COLUMNS`, in order of capture.

    Missing columns become null; unknown columns are dropped.

    Raises:
        CallLogError: If the file cannot be read or is not a frame log.

    """
    try:
        match path.suffix:
            case ".parquet":
                table = polars.read_parquet(bounded(path))
            case ".csv":
                table = polars.read_csv(bounded(path), infer_schema=False)
            case _:
                raise CallLogError(f"{path}: a frame log's name ends in .csv or .parquet")
    except OSError as error:
        raise CallLogError(f"{path}: {error.strerror or error}") from error
    except polars.exceptions.PolarsError as error:
        raise CallLogError(f"{path} is not a frame log: {_first_line(error)}") from error
    missing = [name for name in REQUIRED_COLUMNS if name not in table.columns]
    if missing:
        raise CallLogError(f"{path} is not a frame log: column {missing[0]} is missing")
    try:
        frames = table.select(_column(table, name, dtype) for name, dtype in FRAME_COLUMNS.items())
    except polars.exceptions.PolarsError as error:
        raise CallLogError(f"{path} is not a frame log: {_first_line(error)}") from error
    if frames["captured_at"].null_count() > 0:
        raise CallLogError(f"{path} is not a frame log: a frame has no captured_at")
    return frames.sort("captured_at", maintain_order=True)


def ssim_db(ssim: polars.Expr) -> polars.Expr:
    """SSIM in decibels, -10 log10(1 - SSIM), at most `MAX_SSIM_DB` (NSDI 2018, section 5.1)."""
    return -10.0 * (1.0 - ssim).clip(lower_bound=10.0 ** (-MAX_SSIM_DB / 10.0)).log(10.0)


def _column(table: polars.DataFrame, name: str, dtype: type[polars.DataType]) -> polars.Expr:
    """The column `name` as `dtype`: converted from text if it came from CSV, null where the table has none."""
    if name not in table.columns:
        return polars.lit(None, dtype=dtype).alias(name)
    column = polars.col(name)
    if table.schema[name] == polars.String and dtype == polars.Boolean:
        return column.replace_strict({"true": True, "false": False}, default=None, return_dtype=polars.Boolean)
    column = column.cast(dtype)
    # NaN and infinity become null: JSON cannot hold them and charts cannot show them.
    return polars.when(column.is_finite()).then(column).alias(name) if dtype == polars.Float64 else column


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
