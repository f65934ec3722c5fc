"""An estimator that always says the same, in a file as AlphaRTC's challenge has them."""


class Estimator:
    """Half a megabit a second, whatever arrives."""

    def report_states(self, stats: object) -> None:
        """Hears of a packet."""

    def get_estimated_bandwidth(self) -> int:
        """Says the bandwidth."""
        return 500_000
