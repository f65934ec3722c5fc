from collections.abc import Callable, Sequence
from typing import Any, Literal, final

import numpy as np
import polars
from numpy.typing import NDArray
from typing_extensions import Buffer

MAX_ENVIRONMENTS: int
"""Largest number of environments in one vector."""

def version() -> str:
    """Version of Lockstep from which the extension was built."""

def barcode_regions(width: int, height: int) -> tuple[tuple[int, int, int, int], tuple[int, int, int, int]]:
    """The rectangles (x, y, width, height) of the two barcodes in a picture of this size: top left, bottom right.

    In luma samples; all edges are even. Raises ``ValueError`` for a size that has no room for barcodes.
    """

def read_barcode(luma: Buffer, width: int, height: int, *, stride: int | None = None) -> tuple[int | None, str | None]:
    """The number in the barcodes of a picture and None, or None and the reason for the failure.

    ``luma`` holds its rows, ``stride`` bytes apart (default: ``width``).
    """

def read_barcode_regions(
    top_left: Buffer,
    bottom_right: Buffer,
    width: int,
    height: int,
    *,
    strides: tuple[int, int] | None = None,
) -> tuple[int | None, str | None]:
    """The number in the barcodes of a picture of ``width`` x ``height`` and None, or None and the reason.

    The buffers hold the luma of its two ``barcode_regions``; ``strides`` are the distances of their rows in bytes
    (default: the widths of the regions).
    """

def ssim(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> float:
    """Mean SSIM of two luma planes (rows by columns), at most 1; raises ``ValueError`` if their sizes differ."""

def text_ssim(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> float | None:
    """Mean SSIM of the windows in which the first luma plane has text or other sharp edges; None if it has none.

    Raises ``ValueError`` if the sizes differ.
    """

def freezes(times: Sequence[float], frame_interval: float) -> tuple[int, float]:
    """Number of freezes and their total duration (s) for pictures displayed at these times (s, in order).

    The source gives one picture every ``frame_interval`` seconds. Definition: W3C webrtc-stats, ``freezeCount``.
    """

class VectorEnvironment:
    """Many modelled calls, each controlled by an agent; all step together without the interpreter's lock."""

    def __init__(
        self,
        count: int,
        traces: list[str],
        *,
        seed: int,
        threads: int,
        codec: str,
        model: str | None,
        clips: list[str] | None,
        width: int,
        height: int,
        frames_per_second: float,
        step_ms: float,
        steps: int,
        random_start: bool,
        delay_ms: tuple[float, float],
        queue_packets: tuple[int, int],
        loss: tuple[float, float],
        at_sender: bool,
        feedback_ms: Sequence[float],
        rates_bps: tuple[int, int, int],
        observation: str | None,
        shared: float,
        cross_traffic: list[str],
    ) -> None: ...
    def observations(self) -> NDArray[np.float32]:
        """The observation of each environment; the first axis counts environments."""
    @staticmethod
    def features() -> list[tuple[str, str]]:
        """Names and meanings of the features, in column order."""
    def __len__(self) -> int: ...
    def reset(
        self, seed: int | list[int | None] | None = None, mask: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Begins new episodes in all environments or in those of ``mask``.

        ``seed`` is one seed for all, a list with a seed or None for each, or None. Returns the features, one row for
        each environment, and flags of the environments whose episode has ended.
        """
    def step(self, rates: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Sets the rates, bit/s, and runs one step; returns features, one row each, and flags of ended ones."""

def training_layout() -> tuple[list[str], list[float], list[float], int]:
    """Names of the inputs, forecast horizons (s), forecast quantiles, and the number of remembered values."""

class TrainingSetting:
    """Ranges from which modelled calls of Lockstep's own controller are drawn."""

    def __init__(
        self,
        traces: list[str],
        *,
        sizes: list[tuple[int, int]],
        frame_rates: list[int],
        pictures: int,
        delay_ms: tuple[float, float],
        queue_packets: tuple[int, int],
        loss: tuple[float, float],
        jitter_ms: tuple[float, float],
        feedback_ms: Sequence[float],
    ) -> None: ...
    def record(
        self, count: int, *, seed: int, threads: int, model: bytes | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The inputs of the controller in ``count`` calls, and the correct outputs.

        Axes: call and picture; NaN after the last picture of a call. Without a model, Sprout controls the calls.
        """

class OnnxModel:
    """A model in an ONNX file, run by the same code as in learned controllers: equal results on every machine."""

    def __init__(self, content: bytes) -> None: ...
    def run(self, inputs: list[NDArray[np.float32]]) -> list[list[float]]:
        """The outputs; ``inputs`` has one flat array for each input."""

class EstimatorError(RuntimeError):
    """The file of an AlphaRTC estimator is missing, does not load, raises, ends, times out or returns no bandwidth.

    The message gives the reason in one line, with the file and the line in it.
    """

class Table:
    """A table: columns of equal length.

    Every library with Arrow's PyCapsule interface reads it without conversion, for example
    ``polars.DataFrame(table)``. ``table[name]`` is a column as a NumPy array. Tables with equal columns and values are
    equal. Tables can be pickled.
    """

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
    def __len__(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...
    def __getitem__(self, name: str) -> NDArray[Any]:
        """A column: numbers as float64 with NaN for missing ones, flags as bool, text as strings."""
    def to_polars(self) -> polars.DataFrame:
        """The table as a polars data frame."""
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The table in Arrow's PyCapsule interface."""

def simulate(
    options: dict[str, Any],
    *,
    estimator: object | None = None,
    exchange: Callable[..., float] | None = None,
    controller: object | None = None,
    session: bool = False,
) -> tuple[str, Table, Table, Table | None]:
    """Runs the call of these options; their names are those of :func:`simulate_options`.

    ``controller`` has ``name``, ``make`` and ``answer`` (:class:`lockstep.controllers.Registered`). Returns the report
    as JSON, the frames, the series and, with ``session``, the rows of the session log.
    """

def unpickled_table(columns: list[tuple[str, NDArray[Any] | list[str], NDArray[np.bool_] | None, bool]]) -> Table:
    """The table of pickled columns."""

def simulate_options() -> list[str]:
    """The names of the options that ``simulate`` takes."""

class SteppedCall:
    """A call whose bandwidth an agent at the receiver estimates, step by step."""

    def __init__(
        self,
        trace: str,
        *,
        interval_ms: int,
        length_ms: int | None,
        seed: int,
        delay_ms: float,
        queue_packets: int,
    ) -> None: ...
    def step(self, bandwidth_bps: float) -> tuple[list[tuple[int, int, int, int, int, int]], bool]:
        """Sets the estimate and runs one interval; returns the arrived packets, and whether the call is over."""

class CallError(RuntimeError):
    """A live call cannot start, has failed or is over; the message gives the reason in one line."""

@final
class Frame:
    """A received frame.

    It shares its samples with the decoder: the arrays of :attr:`planes` are read-only and keep the frame alive.
    """

    @property
    def width(self) -> int:
        """Width in luma samples."""
    @property
    def height(self) -> int:
        """Height in luma rows."""
    @property
    def planes(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]]:
        """The planes Y, U and V, without copies. U and V have half the width and height, rounded up."""
    @property
    def stream(self) -> str:
        """The name of its stream; empty for the only stream of a call."""
    @property
    def captured_at(self) -> float:
        """Time of capture in seconds, on the peer's clock. Differences are exact; the origin is arbitrary."""
    @property
    def age(self) -> float | None:
        """Seconds from capture until the application took the frame; None while the clocks are not comparable."""
    def to_rgb(self) -> NDArray[np.uint8]:
        """A copy as packed RGB of shape (height, width, 3): BT.601 in limited range, as in VP8."""

@final
class LiveCall:
    """One end of a live call. Use it through ``lockstep.Call``."""

    @staticmethod
    def join(ticket: str, options: dict[str, Any]) -> LiveCall:
        """Joins the listener of a ticket."""
    @staticmethod
    def listen(address: str, identity: str | bytes | None, options: dict[str, Any]) -> tuple[LiveCall, str]:
        """Listens at an address; returns the call and its ticket."""
    def send(
        self, frame: Frame | NDArray[np.uint8] | Sequence[NDArray[np.uint8]], age: float, stream: str | None
    ) -> bool:
        """Sends a frame captured ``age`` seconds ago; returns whether it replaced a waiting frame."""
    def next_frame(self, timeout: float | None) -> Frame | None:
        """The next frame; None after the timeout or after the end of the call."""
    def next_event(self, timeout: float | None) -> tuple[str, dict[str, Any]] | None:
        """The next event as its name and fields; None after the timeout or after the end of the call."""
    def wait_for_frame(self, timeout: float) -> bool:
        """Waits until a frame is ready or no more will come; returns False after the timeout."""
    def wait_for_event(self, timeout: float) -> bool:
        """Waits until an event is ready or no more will come; returns False after the timeout."""
    def wait_joined(self, timeout: float | None) -> bool:
        """Waits until the peer has joined; returns False after the timeout."""
    def is_over(self) -> bool:
        """Whether the call is over."""
    def end(self) -> None:
        """Starts to end the call without waiting."""
    def leave(self) -> Literal["left", "peer_left"]:
        """Ends the call and waits until the peer has confirmed it; returns which side ended it."""
    def send_message(self, data: bytes | bytearray | memoryview, channel: int | None) -> None:
        """Sends a message: reliable without a channel, latest of its channel otherwise."""
    def set_max_bitrate(self, cap: float | None, stream: str | None) -> None:
        """Changes the maximum bit rate of all streams or of one, bit/s; None removes it."""
    def set_paused(self, stream: str, paused: bool) -> None:
        """Pauses a stream, or resumes it."""
    def set_latency(self, name: str) -> None:
        """Changes the latency preset."""
    def set_presence(self, muted: bool, camera_off: bool) -> None:
        """Mutes the microphone or turns the camera off."""
