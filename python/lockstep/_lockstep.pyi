from collections.abc import Callable, Sequence
from typing import Any, Literal, final

import numpy as np
import polars
from numpy.typing import NDArray
from typing_extensions import Buffer

MOST_ENVIRONMENTS: int
"""The most environments of one vector."""

def version() -> str:
    """Version of Lockstep that the extension was built from."""

def barcode_regions(width: int, height: int) -> tuple[tuple[int, int, int, int], tuple[int, int, int, int]]:
    """The rectangles (x, y, width, height) that a picture of this size has its barcodes in: top left, bottom right.

    In luma samples, all edges even. Raises ``ValueError`` for a size that carries no barcodes.
    """

def read_barcode(luma: Buffer, width: int, height: int, *, stride: int | None = None) -> tuple[int | None, str | None]:
    """The number in the barcodes of a picture; or None, and what was wrong.

    ``luma`` holds its rows, ``stride`` bytes apart (``width`` if not given).
    """

def read_barcode_regions(
    top_left: Buffer,
    bottom_right: Buffer,
    width: int,
    height: int,
    *,
    strides: tuple[int, int] | None = None,
) -> tuple[int | None, str | None]:
    """The number in the barcodes of a picture of ``width`` x ``height``; or None, and what was wrong.

    The buffers hold the luma of its two ``barcode_regions``, rows as far apart as ``strides`` says (as the regions
    are wide if not given).
    """

def ssim(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> float:
    """The mean SSIM of two lumas (rows by columns), at most 1; a ValueError if their sizes differ."""

def freezes(times: Sequence[float], frame_interval: float) -> tuple[int, float]:
    """How often pictures that were shown at these times (s, in order) stood still, and how long together (s).

    The source gives one every ``frame_interval`` seconds; what a freeze is, webrtc-stats says.
    """

class VectorEnvironment:
    """Many modelled calls, each controlled by an agent, stepped together without the interpreter's lock."""

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
    ) -> None: ...
    def observations(self) -> NDArray[np.float32]:
        """What a model sees of each environment; the first axis is that of environments."""
    @staticmethod
    def features() -> list[tuple[str, str]]:
        """Names and meanings of the features, in their order."""
    def __len__(self) -> int: ...
    def reset(
        self, seed: int | list[int | None] | None = None, mask: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Begins new episodes, all or those of ``mask``, from one seed for all, or from one each, or none.

        Gives the features, a row an environment, and who is done.
        """
    def step(self, rates: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Sets the rates, bit/s, and lets a step pass; gives the features, one row an environment, and who is done."""

def lesson_names() -> tuple[list[str], list[float], list[float], int]:
    """What is seen, in order; for which times ahead (s) and quantiles bytes are forecast; how much is remembered."""

class LessonSetting:
    """What modelled calls of Lockstep's own controller are drawn from."""

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
        """What the controller sees in ``count`` calls, and what would have been right to say.

        By call and picture; NaN where a call had fewer pictures. Without a model, Sprout controls the calls.
        """

class OnnxModel:
    """A model in an ONNX file, run as learned controllers run theirs: the same numbers on every machine."""

    def __init__(self, content: bytes) -> None: ...
    def run(self, inputs: list[NDArray[np.float32]]) -> list[list[float]]:
        """The outputs for one flat array for each input."""

class EstimatorError(RuntimeError):
    """The file of an AlphaRTC estimator is not there, cannot be loaded, raised something, took too long or ended.

    Or it answered what is no bandwidth. The message says which, in one line, with the file and where it happened.
    """

class Table:
    """A table: columns of equal length.

    Whatever reads Arrow's PyCapsule interface reads it as it is, ``polars.DataFrame(table)`` for one; ``table[name]``
    is a column as a NumPy array. Tables with the same columns and values are equal, and tables can be pickled.
    """

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
    def __len__(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...
    def __getitem__(self, name: str) -> NDArray[Any]:
        """A column: numbers as float64 with NaN where there is none, flags as bool, words as strings."""
    def to_polars(self) -> polars.DataFrame:
        """The table as a polars data frame."""
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The table by Arrow's PyCapsule interface."""

def simulate(
    options: dict[str, Any],
    *,
    estimator: object | None = None,
    exchange: Callable[..., float] | None = None,
    controller: object | None = None,
    session: bool = False,
) -> tuple[str, Table, Table, Table | None]:
    """Runs the call that the options say, by the names of the table.

    ``controller`` has ``name``, ``make`` and ``answer`` (:class:`lockstep.controllers.Registered`). Gives its report as
    JSON, frames and series, and with ``session`` the seconds of its session log.
    """

def unpickled_table(columns: list[tuple[str, NDArray[Any] | list[str], NDArray[np.bool_] | None, bool]]) -> Table:
    """The table of columns that were pickled."""

def simulate_options() -> list[str]:
    """The names of the options of a call, as ``simulate`` takes them."""

class SteppedCall:
    """A call that an agent at the receiver estimates for, step by step."""

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
        """Sets the estimate and lets an interval pass; gives the packets that arrived in it, and whether it is over."""

class CallError(RuntimeError):
    """A live call that cannot start, failed, or is over; the message gives the reason in one line."""

@final
class Frame:
    """A frame of the other end.

    Its samples are shared with the decoder: the arrays of :attr:`planes` are read-only, and keep the frame alive.
    """

    @property
    def width(self) -> int:
        """Luma samples in a row."""
    @property
    def height(self) -> int:
        """Luma rows."""
    @property
    def planes(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]]:
        """The planes Y, U and V, without copies. U and V have half the size in each direction, rounded up."""
    @property
    def stream(self) -> str:
        """The name of its stream; empty for the only stream of a call."""
    @property
    def captured_at(self) -> float:
        """Time of capture in seconds, on the other end's clock. Differences are exact, the origin is arbitrary."""
    @property
    def age(self) -> float | None:
        """Seconds from capture until the frame was taken; None before the clocks can be compared."""
    def to_rgb(self) -> NDArray[np.uint8]:
        """A copy as packed RGB of shape (height, width, 3): BT.601 in limited range, as in VP8."""

@final
class LiveCall:
    """One end of a live call. Use it through ``lockstep.Call``."""

    @staticmethod
    def join(ticket: str, options: dict[str, Any]) -> LiveCall:
        """Joins the giver of a ticket."""
    @staticmethod
    def listen(address: str, identity: str | bytes | None, options: dict[str, Any]) -> tuple[LiveCall, str]:
        """Listens at an address; gives the call and its ticket."""
    def send(
        self, frame: Frame | NDArray[np.uint8] | Sequence[NDArray[np.uint8]], age: float, stream: str | None
    ) -> bool:
        """Sends a frame of a stream that was captured ``age`` seconds ago; says whether it replaced one that waited."""
    def next_frame(self, timeout: float | None) -> Frame | None:
        """The next frame; None if none came in time, or the call ended."""
    def next_event(self, timeout: float | None) -> tuple[str, dict[str, Any]] | None:
        """The next event as its name and fields; None if none came in time, or after the call's end."""
    def wait_for_frame(self, timeout: float) -> bool:
        """Waits until a frame can be taken or none will come; says whether one of both holds."""
    def wait_for_event(self, timeout: float) -> bool:
        """Waits until an event can be taken or none will come; says whether one of both holds."""
    def wait_joined(self, timeout: float | None) -> bool:
        """Waits until the other end has joined; says whether it has."""
    def is_over(self) -> bool:
        """Whether the call is over."""
    def end(self) -> None:
        """Begins to end the call, and does not wait."""
    def leave(self) -> Literal["left", "peer_left"]:
        """Ends the call, and waits until the other end knows; gives how it ended."""
    def send_message(self, data: bytes | bytearray | memoryview, channel: int | None) -> None:
        """Sends a message: reliably, or with a channel the latest of that channel."""
    def set_max_bitrate(self, cap: float | None, stream: str | None) -> None:
        """Changes the cap of the bit rate of all streams or of one, in bit/s; None removes it."""
    def set_paused(self, stream: str, paused: bool) -> None:
        """Pauses a stream, or resumes it."""
    def set_latency(self, name: str) -> None:
        """Changes the latency."""
    def set_presence(self, muted: bool, camera_off: bool) -> None:
        """Mutes the sound or turns the camera off."""
