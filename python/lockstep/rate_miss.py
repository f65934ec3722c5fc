"""`lockstep-rate-miss`: deviation of a conventional codec from its target within a second, Lockstep's and libvpx.

In Concerto (MobiCom 2019, figures 11 and 12), the ratio of deviation to target grows from 2 to 0.1 Mb/s.
Lockstep's codec, real and modelled, runs in `lockstep simulate` with a fixed controller and a link that is never the
bottleneck. libvpx's one-pass constant bit rate runs in `vpxenc` with WebRTC's settings, where `vpxenc` is installed.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import altair
import polars

from lockstep.charts import Plot
from lockstep.figure import COLOURS, FigureError, render
from lockstep.module_command import ArgumentParser, print_error

HEADER_BYTES = 64
"""Bytes of Lockstep's data header in each fragment; the controller's target includes them."""

LIBVPX = [
    *(
        "--codec=vp8",
        "--rt",
        "--cpu-used=-6",
        "--end-usage=cbr",
        "--lag-in-frames=0",
        "--passes=1",
        "--error-resilient=1",
    ),
    *("--buf-initial-sz=500", "--buf-optimal-sz=600", "--buf-sz=1000", "--undershoot-pct=100", "--overshoot-pct=15"),
    *("--min-q=2", "--max-q=56", "--drop-frame=30", "--kf-max-dist=3000", "--max-intra-rate=900", "--threads=1"),
]
"""Options of `vpxenc` that correspond to WebRTC's VP8 settings."""


class RateMissError(Exception):
    """The study cannot run; the message gives the reason."""


@dataclass(frozen=True)
class Miss:
    """Deviations of one encoder from one target on one clip, per second: |rate - target| / target.

    `deviation` is the standard deviation of rate / target over the seconds, `peak` its maximum.
    """

    clip: str
    encoder: str
    target_kbps: int
    seconds: int
    mean: float
    p95: float
    most: float
    rate_kbps: float
    deviation: float
    peak: float


def miss(clip: str, encoder: str, kbps: int, frames: Iterable[tuple[float, float]], length: float) -> Miss:
    """The deviations of `frames` in the whole seconds of `length`; a frame is a time in seconds and a size in bytes.

    Raises:
        RateMissError: If the clip is shorter than a second.

    """
    bits: dict[int, float] = defaultdict(float)
    for at, size in frames:
        bits[int(at + 1e-9)] += 8 * size
    seconds = int(length + 1e-6)
    if seconds < 1:
        raise RateMissError(f"{clip}: shorter than a second")
    shares = [bits[second] / (1e3 * kbps) for second in range(seconds)]
    deviations = sorted(abs(share - 1) for share in shares)
    # The smallest value that 95 % do not exceed.
    p95 = deviations[-(-95 * seconds // 100) - 1]
    rate = sum(bits[second] for second in range(seconds)) / seconds / 1e3
    mean = sum(deviations) / seconds
    return Miss(clip, encoder, kbps, seconds, mean, p95, deviations[-1], rate, statistics.pstdev(shares), max(shares))


def ivf_frames(content: bytes) -> list[tuple[float, float]]:
    """Times and sizes of the frames of an IVF file.

    Raises:
        RateMissError: If the file is damaged.

    """
    if content[:4] != b"DKIF" or len(content) < 32:
        raise RateMissError("cannot read the output of vpxenc: expected an IVF file")
    rate, scale = (int.from_bytes(content[at : at + 4], "little") for at in (16, 20))
    frames, at = [], int.from_bytes(content[6:8], "little")
    if not rate or at < 32:
        raise RateMissError("cannot read the output of vpxenc: damaged IVF header")
    while at + 12 <= len(content):
        size = int.from_bytes(content[at : at + 4], "little")
        if at + 12 + size > len(content):
            break
        frames.append((int.from_bytes(content[at + 4 : at + 12], "little") * scale / rate, float(size)))
        at += 12 + size
    return frames


def run(words: list[str]) -> None:
    """Runs a program.

    Raises:
        RateMissError: If it fails or is not found; with its last line of output.

    """
    try:
        subprocess.run(words, check=True, capture_output=True, text=True)  # noqa: S603
    except OSError as error:
        raise RateMissError(f"{words[0]}: {error.strerror}") from error
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or "").strip().splitlines()
        raise RateMissError(f"{words[0]}: {lines[-1] if lines else 'failed'}") from error


def ours(lockstep: str, clip: str, kbps: int, seconds: float, words: Iterable[str] = ()) -> Miss:
    """Measures a conventional codec of Lockstep; `words` are more options of `lockstep simulate`."""
    words = list(words)
    with tempfile.TemporaryDirectory() as name:
        table = Path(name) / "frames.parquet"
        call = [lockstep, "simulate", "--clip", clip, "--seconds", f"{seconds:g}", "--codec", "conventional"]
        call += ["--controller", f"fixed:{kbps}kbps", "--trace", "constant:100mbps", "--max-bitrate", "none"]
        run([*call, "--frames", str(table), *words])
        frames = polars.read_parquet(table)
    if len(frames) < 2:
        raise RateMissError(f"{clip}: fewer than two pictures")
    times = frames["captured_at"].to_list()
    length = min(seconds, times[-1] + times[1] - times[0])
    sent = frames.filter(polars.col("outcome") == "sent").select("captured_at", "size", "fragments").rows()
    sizes = [(at, size + HEADER_BYTES * fragments) for at, size, fragments in sent]
    return miss(clip, "lockstep modelled" if words else "lockstep", kbps, sizes, length)


def libvpx(y4m: Path, clip: str, kbps: int, length: float) -> Miss:
    """Measures libvpx at a constant bit rate."""
    output = y4m.with_suffix(".ivf")
    run(["vpxenc", *LIBVPX, f"--target-bitrate={kbps}", "--ivf", "-o", str(output), str(y4m)])
    return miss(clip, "libvpx", kbps, ivf_frames(output.read_bytes()), length)


def as_y4m(clip: str, seconds: float, folder: Path) -> Path | None:
    """The clip in the format of vpxenc; None without vpxenc or for a generated clip."""
    if shutil.which("vpxenc") is None or clip.startswith("generated"):
        return None
    output = folder / "clip.y4m"
    words = ["-i", clip, "-t", f"{seconds:g}", "-pix_fmt", "yuv420p", str(output)]
    run(["ffmpeg", "-nostdin", "-v", "error", "-y", *words])
    return output


def chart(misses: list[Miss]) -> Plot:
    """Mean deviation over target: one thin line for each clip, one thick line for the mean of each encoder."""
    table = polars.DataFrame([asdict(miss) for miss in misses])
    table = table.with_columns((polars.col("target_kbps") / 1e3).alias("target"), 100 * polars.col("mean"))
    means = table.group_by("encoder", "target", maintain_order=True).agg(polars.col("mean").mean())
    encoders = sorted(table["encoder"].unique())
    scale = altair.Scale(domain=encoders, range=COLOURS[: len(encoders)])
    encoded = {
        "x": altair.X("target:Q", axis=altair.Axis(title="target, Mb/s", titleFontWeight="normal", grid=True)),
        "y": altair.Y("mean:Q", axis=altair.Axis(title=None, tickCount=6)),
        "color": altair.Color("encoder:N", scale=scale, legend=altair.Legend(title=None, orient="top")),
    }
    layers = altair.layer(
        altair.Chart(table).mark_line(opacity=0.3, strokeWidth=1).encode(**encoded, detail="clip:N"),
        altair.Chart(means).mark_line(strokeWidth=3).encode(**encoded),
    )
    subtitle = "% of the target, mean over seconds; thin: each clip"
    title = altair.Title(
        "Deviation of a conventional codec from its target within a second", subtitle=subtitle, offset=14
    )
    return layers.properties(width=820, height=460, title=title)


def study(options: argparse.Namespace) -> list[Miss]:
    """Measures every encoder at every target on every clip.

    Raises:
        RateMissError: If a call or an encoder fails.

    """
    misses: list[Miss] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for clip in options.clips:
            y4m = as_y4m(clip, options.seconds, folder)
            for kbps in options.targets:
                real = ours(options.lockstep, clip, kbps, options.seconds)
                misses.append(real)
                if y4m is not None:
                    misses.append(libvpx(y4m, clip, kbps, float(real.seconds)))
    for seed in range(1, options.modelled + 1):
        for kbps in options.targets:
            words = ["--modelled", "--seed", str(seed)]
            modelled = ours(options.lockstep, "generated:640x360@30", kbps, options.seconds, words)
            misses.append(replace(modelled, clip=f"drawn by seed {seed}"))
    return misses


def show(misses: list[Miss]) -> None:
    """Prints the means over the clips, one line for each target."""
    encoders = sorted({miss.encoder for miss in misses})
    print("target kb/s" + "".join(f"{encoder + ': mean':>26}{'p95':>8}{'most':>8}{'std':>8}" for encoder in encoders))
    for kbps in sorted({miss.target_kbps for miss in misses}):
        line = f"{kbps:>11}"
        for encoder in encoders:
            of = [miss for miss in misses if (miss.encoder, miss.target_kbps) == (encoder, kbps)]
            figures = (
                sum(values) / len(of)
                for values in zip(*((m.mean, m.p95, m.most, m.deviation) for m in of), strict=True)
            )
            mean, p95, most, deviation = (f"{100 * figure:.0f} %" for figure in figures)
            line += f"{mean:>26}{p95:>8}{most:>8}{deviation:>8}"
        print(line)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = ArgumentParser(prog="lockstep-rate-miss", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument("clips", nargs="*", default=["generated:640x360@30"], help="clips, as for lockstep simulate")
    parser.add_argument("--seconds", type=float, default=30.0, help="seconds of each clip (30)")
    parser.add_argument(
        "--targets",
        type=int,
        nargs="+",
        default=list(range(100, 2001, 100)),
        help="target bit rates, kb/s (100 to 2000)",
    )
    parser.add_argument("--modelled", type=int, default=7, help="number of seeds for modelled calls (7)")
    parser.add_argument("--lockstep", default="lockstep", help="the lockstep command (lockstep)")
    parser.add_argument("--json", type=Path, help="file for the numbers, JSON")
    parser.add_argument("--output", type=Path, help="file for the plot: .html, .png, .svg, .pdf or .csv")
    options = parser.parse_args(arguments)
    try:
        misses = study(options)
        show(misses)
        if options.json is not None:
            options.json.write_text(json.dumps([asdict(miss) for miss in misses], indent=2) + "\n")
        if options.output is not None:
            options.output.write_bytes(render(chart(misses), options.output))
    except (RateMissError, FigureError, OSError) as error:
        print_error("lockstep-rate-miss", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
