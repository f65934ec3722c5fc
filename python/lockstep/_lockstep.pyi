import numpy as np
from numpy.typing import NDArray

def version() -> str:
    """Version of Lockstep that the extension was built from."""

class VectorEnvironment:
    """Many modelled calls, each controlled by an agent, stepped together without the interpreter's lock."""

    def __init__(
        self,
        count: int,
        traces: list[str],
        *,
        seed: int,
        threads: int,
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
        feedback_ms: float,
        rates_bps: tuple[int, int, int],
    ) -> None: ...
    @staticmethod
    def features() -> list[tuple[str, str]]:
        """Names and meanings of the features, in their order."""
    def __len__(self) -> int: ...
    def reset(
        self, seed: int | None = None, mask: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Begins new episodes, all or those of ``mask``; gives the features, a row an environment, and who is done."""
    def step(self, rates: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Sets the rates, bit/s, and lets a step pass; gives the features, one row an environment, and who is done."""
