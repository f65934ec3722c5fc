"""Decodes encoded frames exactly: VP8 with Lockstep's decoder, other codecs with ffmpeg."""

import struct
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from lockstep.command import lockstep_command
from lockstep.testbed.programs import Clip, Samples, TestbedError, executable

FOURCC = {"vp8": b"VP80", "vp9": b"VP90", "av1": b"AV01"}


@dataclass(frozen=True, slots=True)
class EncodedFrame:
    """A frame at the input of the decoder."""

    rtp: int
    key: bool
    data: bytes


def in_order(frames: Sequence[EncodedFrame]) -> list[EncodedFrame]:
    """Frames without duplicates, ordered by RTP timestamps, which wrap at 2^32, from the first key frame on.

    WebRTC probes the link with earlier packets, so whole frames may arrive twice. Decoding a frame twice would change
    the following frames.
    """
    if not frames:
        return []
    start = frames[0].rtp
    once = {(frame.rtp, frame.data): frame for frame in frames}
    turned = sorted(once.values(), key=lambda frame: (frame.rtp - start + 2**31) % 2**32)
    first = next((index for index, frame in enumerate(turned) if frame.key), len(turned))
    return turned[first:]


def decoded(frames: Sequence[EncodedFrame], codec: str, clip: Clip, work: Path) -> Iterator[tuple[EncodedFrame, bytes]]:
    """Each frame with its picture, I420 at the clip's size.

    WebRTC sends smaller pictures at low rates. They are scaled like in a player (bicubic).

    Raises:
        TestbedError: If the decoder fails.

    """
    ordered = in_order(frames)
    if not ordered:
        return
    if codec == "h264":
        path = work / "tap.h264"
        path.write_bytes(b"".join(frame.data for frame in ordered))
    else:
        path = work / "tap.ivf"
        with path.open("wb") as output:
            header = (b"DKIF", 0, 32, FOURCC[codec], clip.width, clip.height, 30, 1, len(ordered), 0)
            output.write(struct.pack("<4sHH4sHHIIII", *header))
            for index, frame in enumerate(ordered):
                output.write(struct.pack("<IQ", len(frame.data), index) + frame.data)
    own = codec == "vp8" and all(_vp8_size(frame.data) == (clip.width, clip.height) for frame in ordered if frame.key)
    if own:
        command = [lockstep_command(), "decode", str(path), "-"]
    else:
        scaled = f"scale={clip.width}:{clip.height}:flags=bicubic"
        command = [executable("ffmpeg", "ffmpeg"), "-v", "error", "-i", str(path), "-fps_mode", "passthrough"]
        command += ["-vf", scaled, "-pix_fmt", "yuv420p", "-f", "rawvideo", "-"]
    size = clip.width * clip.height + 2 * (-(-clip.width // 2) * -(-clip.height // 2))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as decoder:  # noqa: S603
        assert decoder.stdout is not None  # noqa: S101
        if own:
            decoder.stdout.readline()
        for frame in ordered:
            if own:
                decoder.stdout.readline()
            picture = _whole(decoder.stdout, size)
            if picture is None:
                errors = decoder.stderr.read().decode(errors="replace").strip() if decoder.stderr else ""
                raise TestbedError(f"{command[0]} decoded fewer pictures than frames were received: {errors}")
            yield frame, picture


def confirmed(
    pictures: Iterable[tuple[EncodedFrame, bytes]],
    wanted: Mapping[int, int],
    judge: Callable[[EncodedFrame, bytes], bool | None],
) -> Iterator[tuple[int, Samples]]:
    """The decoded pictures that are ``wanted`` (keys by RTP timestamp) and that the browser displayed.

    ``judge`` returns whether a picture equals the browser's, or None if unknown. A picture passes if the next known
    picture is equal. Pictures before a different one are dropped.
    """
    waiting: list[tuple[int, Samples]] = []
    lost = False
    for frame, picture in pictures:
        if frame.key:
            if not lost:
                yield from waiting
            waiting, lost = [], False
        if (key := wanted.get(frame.rtp)) is not None:
            waiting.append((key, np.frombuffer(picture, np.uint8)))
        if (same := judge(frame, picture)) is None:
            continue
        lost = not same
        if same:
            yield from waiting
        waiting = []
    if not lost:
        yield from waiting


def _whole(stream: IO[bytes], size: int) -> bytes | None:
    data = stream.read(size)
    return data if len(data) == size else None


def _vp8_size(data: bytes) -> tuple[int, int]:
    """Width and height in a VP8 key frame (RFC 6386, section 9.1)."""
    if len(data) < 10:
        return 0, 0
    width, height = struct.unpack_from("<HH", data, 6)
    return width & 0x3FFF, height & 0x3FFF
