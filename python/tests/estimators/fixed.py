"""An estimator with a constant answer, in a file as in the challenge of AlphaRTC."""


class Estimator:
    """Always estimates 500 kb/s."""

    def report_states(self, stats: object) -> None:
        """Ignore the packet."""

    def get_estimated_bandwidth(self) -> int:
        """Return the bandwidth, bit/s."""
        return 500_000
