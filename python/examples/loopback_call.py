"""Sends frames of the application to itself over loopback.

Run it with ``python loopback_call.py``; it ends on its own.
"""

import time

import numpy as np

import lockstep

WIDTH, HEIGHT, RATE = 320, 240, 30


def picture(number: int) -> np.ndarray:
    """A grey RGB picture with a red bar that moves."""
    rgb = np.full((HEIGHT, WIDTH, 3), 128, np.uint8)
    rgb[:, number * 4 % WIDTH] = (255, 0, 0)
    return rgb


def main() -> int:
    """Sends 60 frames; returns the number of frames that arrived."""
    received = 0
    with (
        lockstep.Call.listen("127.0.0.1:0") as receiver,
        # The sender may be another program on another machine: it needs only the ticket.
        lockstep.Call.join(receiver.ticket, send=(WIDTH, HEIGHT, RATE), receive=False) as sender,
    ):
        for number in range(60):
            sender.send(picture(number), captured_at=time.monotonic())
            while frame := receiver.next_frame(timeout=1 / RATE):
                received += 1
                luma = frame.planes[0].mean()
                age = 0.0 if frame.age is None else frame.age
                print(f"frame {received}: {frame.width}x{frame.height}, age {age * 1e3:.1f} ms, mean luma {luma:.0f}")
    return received


if __name__ == "__main__":
    raise SystemExit(main() < 30)
