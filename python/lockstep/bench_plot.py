"""`lockstep-bench-plot`: rate against quality, and speed, from the JSON document of `lockstep bench codec`."""

import argparse
import sys
from pathlib import Path
from typing import Any

import altair
import msgspec
import polars
import vl_convert

from lockstep import theme
from lockstep.report import VEGA_LITE_VERSION

COLOURS = ["#2f7fe0", "#e0902f", "#12a594", "#a855c7", "#e5484d"]
"""Colours of the encoders, ours first."""


class BenchError(Exception):
    """The document cannot be plotted; says why."""


class Encoder(msgspec.Struct):
    """One encoder's curve: a value a point, and how many pictures it codes a second."""

    name: str
    kbps: list[float]
    psnr_db: list[float]
    ssim_db: list[float]
    frames_per_second: float


class CodecBench(msgspec.Struct):
    """What `lockstep bench codec --json` writes, as far as it is plotted."""

    clip: str
    width: int
    height: int
    pictures: int
    encoders: list[Encoder]


def load(path: Path) -> CodecBench:
    """The document at `path`.

    Raises:
        BenchError: if it cannot be read or is another document.

    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=CodecBench)
    except OSError as error:
        raise BenchError(f"cannot read {path}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise BenchError(f"{path} is no document of `lockstep bench codec`: {error}") from error


def chart(bench: CodecBench) -> altair.HConcatChart:
    """Three plots side by side: PSNR and SSIM over rate, and speed."""
    points = polars.DataFrame(
        [
            {"encoder": encoder.name, "kbps": rate, "psnr": psnr, "ssim": ssim}
            for encoder in bench.encoders
            for rate, psnr, ssim in zip(encoder.kbps, encoder.psnr_db, encoder.ssim_db, strict=True)
        ]
    )
    speeds = polars.DataFrame(
        [{"encoder": encoder.name, "speed": encoder.frames_per_second} for encoder in bench.encoders]
    )
    names = [encoder.name for encoder in bench.encoders]
    colour = altair.Color(
        "encoder:N", scale=altair.Scale(domain=names, range=COLOURS), legend=altair.Legend(title=None, orient="top")
    )

    def curve(field: str, title: str) -> altair.Chart:
        lines: altair.Chart = (
            altair.Chart(points, title=altair.Title(title, subtitle="dB over kb/s"), width=340, height=280)
            .mark_line(point=altair.OverlayMarkDef(size=45, filled=True), strokeWidth=2)
            .encode(
                x=altair.X("kbps:Q", scale=altair.Scale(type="log", nice=False), title=None),
                y=altair.Y(f"{field}:Q", scale=altair.Scale(zero=False), title=None),
                color=colour,
            )
        )
        return lines

    speed = (
        altair.Chart(speeds, title=altair.Title("Speed", subtitle="pictures coded a second, one core"), width=220)
        .mark_bar(size=26, cornerRadiusEnd=3)
        .encode(
            x=altair.X("encoder:N", sort=names, title=None, axis=altair.Axis(labelAngle=-30, labelFlush=False)),
            y=altair.Y("speed:Q", title=None),
            color=colour,
        )
        .properties(height=280)
    )
    title = f"{bench.clip}, {bench.width}x{bench.height}, {bench.pictures} pictures"
    whole: altair.HConcatChart = altair.hconcat(
        curve("psnr", "Luma PSNR"), curve("ssim", "Luma SSIM"), speed, spacing=36
    )
    return whole.properties(title=altair.Title(title, fontSize=16, anchor="start", offset=14))


def render(bench: CodecBench, scale: float = 2.0) -> bytes:
    """The plots as a PNG, `scale` pixels to a point."""
    specification: dict[str, Any] = chart(bench).to_dict()
    specification["config"] = theme.configuration(dark=False) | {"background": "white", "padding": 20}
    return vl_convert.vegalite_to_png(specification, vl_version=VEGA_LITE_VERSION, scale=scale)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; gives its exit status."""
    parser = argparse.ArgumentParser(prog="lockstep-bench-plot", description=__doc__)
    parser.add_argument("bench", type=Path, help="what `lockstep bench codec --json` wrote")
    parser.add_argument("--output", type=Path, default=Path("codec.png"), help="the picture to write (codec.png)")
    options = parser.parse_args(arguments)
    try:
        picture = render(load(options.bench))
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_bytes(picture)
    except (BenchError, OSError) as error:
        print(f"lockstep-bench-plot: {error}", file=sys.stderr)
        return 1
    print(f"plot: {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
