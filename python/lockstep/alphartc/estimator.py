"""AlphaRTC's estimator interface: its input, its output, and calls of an estimator object."""

from typing import Any, Protocol, TypedDict, runtime_checkable

from lockstep.alphartc.worker import Clock, bits_per_second, report


class PacketStats(TypedDict):
    """Report of one packet to an estimator: times in milliseconds, lengths in bytes."""

    send_time_ms: int
    arrival_time_ms: int
    payload_type: int
    sequence_number: int
    ssrc: int
    padding_length: int
    header_length: int
    payload_size: int


@runtime_checkable
class Estimator(Protocol):
    """An estimator of AlphaRTC."""

    def report_states(self, stats: Any) -> object:
        """Receive one packet; ``stats`` is a :class:`PacketStats`."""

    def get_estimated_bandwidth(self) -> Any:
        """The bandwidth, bit/s: a number, or a pair whose first item is the number."""


PacketFields = tuple[int, int, int, int, int, int]
"""Arrival in nanoseconds; send and arrival time in milliseconds; sequence number; header and payload in bytes."""


def exchange(estimator: Estimator, packets: list[PacketFields], now: int) -> float:
    """Reports ``packets`` to ``estimator`` and asks for the bandwidth, bit/s, at ``now`` nanoseconds.

    Raises:
        UnusableError: If the estimator returns an invalid bandwidth.

    """
    report(estimator, packets, Clock())
    del now  # an object in this process sees the wall clock
    return bits_per_second(estimator.get_estimated_bandwidth())


def stats_of(packets: list[PacketFields]) -> list[PacketStats]:
    """The packets in the form that estimators receive."""
    collected = _Collecting()
    report(collected, packets, Clock())
    return collected.packets


class _Collecting:
    def __init__(self) -> None:
        self.packets: list[PacketStats] = []

    def report_states(self, stats: PacketStats) -> None:
        self.packets.append(stats)
