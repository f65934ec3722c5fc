"""AlphaRTC's gym interface over a modelled call: no pixels, no processes, thousands of times faster than real time.

New code should use the environments of :mod:`lockstep.gym`.
"""

import os
from pathlib import Path

from lockstep._lockstep import SteppedCall
from lockstep.alphartc.estimator import PacketStats, stats_of
from lockstep.arguments import MAX_UINT32, MAX_UINT64, whole


class Gym:
    """A call for which an agent at the receiver estimates the bandwidth.

    ``gym_id`` has no effect: calls share no state. Keyword arguments set the path properties that AlphaRTC's gym has
    no arguments for. They are the propagation delay each way on top of the trace's ``rtt``, the queue's capacity in
    packets, and the seed. Each reset takes the next seed, so that episodes differ.
    """

    def __init__(self, gym_id: str = "gym", *, seed: int = 1, delay_ms: float = 20.0, queue_packets: int = 256) -> None:
        """A gym without a call; :meth:`reset` begins one.

        Raises:
            ValueError: If the seed or the queue length is out of range.

        """
        self.gym_id = gym_id
        self._seed = whole(seed, "seed", 0, MAX_UINT64)
        self._delay_ms = delay_ms
        self._queue_packets = whole(queue_packets, "queue_packets", 1, MAX_UINT32)
        self._call: SteppedCall | None = None

    def reset(
        self,
        trace_path: str | os.PathLike[str],
        report_interval_ms: int = 60,
        duration_time_ms: int | None = None,
    ) -> None:
        """Begins a call over the trace in ``trace_path``: a JSON file of AlphaRTC or any trace that Lockstep reads.

        The call lasts ``duration_time_ms``, or the length of the trace. One step lasts ``report_interval_ms``.

        Raises:
            OSError: If the file cannot be read.
            ValueError: If it is not a valid trace, or if interval or duration is out of range.

        """
        if not Path(trace_path).exists() and ":" not in os.fspath(trace_path):
            raise FileNotFoundError(f"trace {os.fspath(trace_path)}: no such file")
        length_ms = duration_time_ms
        if length_ms is not None:
            length_ms = whole(length_ms, "duration_time_ms", 0, MAX_UINT32)
        self._call = SteppedCall(
            os.fspath(trace_path),
            interval_ms=whole(report_interval_ms, "report_interval_ms", 1, MAX_UINT32),
            length_ms=length_ms,
            seed=self._seed,
            delay_ms=self._delay_ms,
            queue_packets=self._queue_packets,
        )
        self._seed = (self._seed + 1) & MAX_UINT64

    def step(self, bandwidth_bps: float) -> tuple[list[PacketStats], bool]:
        """Sets the estimate and runs one interval; returns the packets that arrived, and whether the call is over.

        Raises:
            RuntimeError: Before the first reset, and after the end of the call.
            ValueError: If ``bandwidth_bps`` is negative or not a number.

        """
        if self._call is None:
            raise RuntimeError("reset the gym before the first step")
        try:
            rate = float(bandwidth_bps)
        except OverflowError as error:
            raise ValueError(
                "bandwidth_bps: expected a finite bandwidth in bit/s from 0 on, found a larger number than any float"
            ) from error
        packets, done = self._call.step(rate)
        return stats_of(packets), done


GymEnv = Gym
