#!/usr/bin/env python3
"""A custom controller: ``own_controller.py compare`` compares it with GCC and with Lockstep's own.

Without an argument it is a controller program for the command. ``python3`` must have Lockstep installed:
``lockstep simulate --controller program:python/examples/own_controller.py``.
"""

import sys

import lockstep
from lockstep.controllers import Feedback, PathView, Sending, Setting


class Mine(lockstep.Controller):
    """Raises the rate by 5 % while packets queue for less than 30 ms, and lowers it by 10 % otherwise."""

    def start(self, setting: Setting) -> None:
        """Start at the initial rate."""
        self.setting = setting
        self.target = float(setting.initial_bps)

    def on_feedback(self, path: PathView, feedback: Feedback) -> None:
        """Follow the queue."""
        if feedback.packets:
            factor = 1.05 if (path.queueing_delay_ms or 0.0) < 30.0 else 0.9
            self.target = min(max(self.target * factor, self.setting.least_bps), self.setting.most_bps)

    def allowance(self, path: PathView, sending: Sending) -> float:
        """Send at the target; budget and pacing interval follow from it."""
        return self.target


def main() -> None:
    """Compare."""
    for controller in (Mine, "gcc", "lockstep"):
        call = lockstep.simulate("steps:3mbps@5s/1mbps@5s", controller=controller, modelled=True, seconds=20)
        delay = call.scores["video_delay_ms"]["p95"]
        name = call.config["controller"]
        print(f"{name:10} QoE_d {call.scores['qoe_d']:.2f}   p95 of the video delay {delay:.0f} ms")


if __name__ == "__main__":
    if sys.argv[1:] == ["compare"]:
        main()
    else:
        lockstep.serve(Mine())
