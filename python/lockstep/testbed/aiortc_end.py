"""One end of a call with aiortc, as a process: `python -m lockstep.testbed.aiortc_end sender|receiver WORK CLIP`.

The driver carries the session descriptions, one line of JSON in each direction. The call lasts until standard input
ends. The times are in `WORK/sender.times` and `WORK/receiver.times`, the displayed pictures in `WORK/shown.i420`.
"""

import asyncio
import contextlib
import fractions
import json
import sys
from pathlib import Path
from typing import Any

import aiortc
import av
import numpy as np
from aiortc.mediastreams import MediaStreamError

from lockstep.testbed.machine import now
from lockstep.testbed.y4m import ClipReader, open_clip

CLOCK = 90_000
"""RTP clock rate of video, ticks per second (RFC 3551)."""


class ClipTrack(aiortc.VideoStreamTrack):
    """A camera that plays the clip in real time; it skips pictures that were not requested in time."""

    def __init__(self, path: Path, times: Path) -> None:
        """Opens the clip; the hand-over times of pictures go to ``times``."""
        super().__init__()
        self._clip = open_clip(path)
        self._reader = ClipReader(self._clip)
        self._times = times.open("w")
        self._began: float | None = None
        self._next = 0

    async def recv(self) -> av.VideoFrame:
        """The next picture, at its time."""
        rate = self._clip.rate
        if self._began is None:
            self._began = now()
        self._next = max(self._next, int((now() - self._began) * rate))
        await asyncio.sleep(max(0.0, self._began + self._next / rate - now()))
        rows = self._clip.height * 3 // 2
        samples = np.ascontiguousarray(self._reader.samples(self._next)).reshape(rows, self._clip.width)
        frame = av.VideoFrame.from_ndarray(samples, format="yuv420p")
        frame.pts = int(self._next * CLOCK / rate)
        frame.time_base = fractions.Fraction(1, CLOCK)
        self._times.write(f"{self._next % self._clip.frames} {now()}\n")
        self._times.flush()
        self._next += 1
        return frame


async def show(track: Any, work: Path) -> None:
    """Saves all pictures of a track and their arrival times."""
    with (work / "shown.i420").open("wb") as kept, (work / "receiver.times").open("w") as times:
        while True:
            try:
                frame = await track.recv()
            except MediaStreamError:
                return
            at = now()
            try:
                kept.write(frame.to_ndarray(format="yuv420p").tobytes())
                kept.flush()
                times.write(f"{frame.width} {frame.height} {at}\n")
                times.flush()
            except OSError as error:
                raise SystemExit(f"cannot save displayed pictures: {error}") from error


async def call(role: str, work: Path, clip: Path) -> None:
    """Runs one end until standard input ends."""
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    connection = aiortc.RTCPeerConnection(aiortc.RTCConfiguration(iceServers=[]))
    shows: list[asyncio.Task[None]] = []
    if role == "sender":
        connection.addTrack(ClipTrack(clip, work / "sender.times"))
        await connection.setLocalDescription(await connection.createOffer())
        _send_description(connection)
        await _receive_description(connection, lines)
    else:
        connection.on("track", lambda track: shows.append(asyncio.create_task(show(track, work))))
        await _receive_description(connection, lines)
        await connection.setLocalDescription(await connection.createAnswer())
        _send_description(connection)
    while await lines.readline():
        pass
    await connection.close()
    for task in shows:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(task, 2.0)


def _send_description(connection: Any) -> None:
    print(json.dumps({"type": connection.localDescription.type, "sdp": connection.localDescription.sdp}), flush=True)


async def _receive_description(connection: Any, lines: asyncio.StreamReader) -> None:
    description = json.loads(await lines.readline())
    await connection.setRemoteDescription(
        aiortc.RTCSessionDescription(sdp=description["sdp"], type=description["type"])
    )


if __name__ == "__main__":
    asyncio.run(call(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
