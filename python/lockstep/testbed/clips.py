"""The clips that are shown: any video, with barcodes in it."""

import subprocess
import sys
from pathlib import Path

from lockstep.testbed.decoding import lockstep_command
from lockstep.testbed.programs import Clip, TestbedError
from lockstep.testbed.y4m import open_clip

SPARE_SECONDS = 25.0
"""By how much the clip is longer than what counts: joining takes a while, and reading goes on afterwards."""


def barcoded(source: str, size: tuple[int, int], rate: float, seconds: float, folder: Path) -> Clip:
    """The clip with barcodes, made once for all experiments beside each other."""
    length = seconds + SPARE_SECONDS
    stem = "generated" if source == "generated" else Path(source).stem
    path = folder / f"{stem}-{size[0]}x{size[1]}-{rate:g}-{length:g}s.y4m"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        print(f"writing barcodes into {length:.0f} s of {source}: {path}", file=sys.stderr)
        scaled = ["--size", f"{size[0]}x{size[1]}", "--rate", f"{rate:g}", "--seconds", f"{length:g}"]
        partial = path.with_suffix(".part.y4m")
        made = subprocess.run(  # noqa: S603
            [lockstep_command(), "barcode", source, str(partial), *scaled],
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if made.returncode != 0:
            raise TestbedError(f"no barcoded clip can be made of {source}: {made.stderr.strip()}")
        partial.replace(path)
    return open_clip(path)
