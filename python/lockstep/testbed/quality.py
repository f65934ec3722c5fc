"""Quality of displayed pictures: SSIM against the clip, that of its text, and thumbnails of chosen moments."""

import base64
import math
import shutil
import subprocess
from collections.abc import Iterable, Sequence

import lockstep
from lockstep.testbed.programs import Clip, Samples, Shown
from lockstep.testbed.y4m import ClipReader

MAX_SSIM_DB = 60.0
"""SSIM of identical pictures, dB, as everywhere in this project."""
THUMBNAIL_WIDTH = 320
JPEG_QUALITY = "4"


def in_decibels(ssim: float) -> float:
    """SSIM in decibels, -10 log10(1 - SSIM) (Salsify, section 5.1)."""
    return min(MAX_SSIM_DB, -10.0 * math.log10(max(1.0 - ssim, 1e-12)))


def qualities(
    clip: Clip, shown: Sequence[Shown], pictures: Iterable[tuple[int, Samples]], wanted: set[int]
) -> tuple[dict[int, tuple[float, float | None]], dict[int, str]]:
    """SSIM and text SSIM of each displayed picture by its key, and thumbnails of those in ``wanted`` (data URLs)."""
    numbers = {picture.key: picture.sight.number for picture in shown}
    reader = ClipReader(clip)
    ssim: dict[int, tuple[float, float | None]] = {}
    thumbnails: dict[int, str] = {}
    for key, samples in pictures:
        if key not in numbers:
            continue
        sent, luma = reader.luma(numbers[key]), clip.luma(samples)
        ssim[key] = lockstep.ssim(sent, luma), lockstep.text_ssim(sent, luma)
        if key in wanted and (image := thumbnail(clip, samples)):
            thumbnails[key] = image
    return ssim, thumbnails


def thumbnail(clip: Clip, samples: Samples) -> str | None:
    """A picture as a small JPEG in a data URL; None without ffmpeg."""
    ffmpeg = shutil.which("ffmpeg")
    if ffmpeg is None:
        return None
    size = f"{clip.width}x{clip.height}"
    command = [ffmpeg, "-v", "error", "-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", size, "-i", "-"]
    command += ["-vf", f"scale={THUMBNAIL_WIDTH}:-2", "-frames:v", "1", "-q:v", JPEG_QUALITY, "-f", "mjpeg", "-"]
    made = subprocess.run(command, input=samples.tobytes(), check=False, capture_output=True)  # noqa: S603
    if made.returncode != 0 or not made.stdout:
        return None
    return f"data:image/jpeg;base64,{base64.b64encode(made.stdout).decode()}"
