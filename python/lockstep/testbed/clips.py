"""Makes the clips for the testbed: any video with barcodes."""

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from lockstep.command import lockstep_command
from lockstep.testbed.processes import apart, pause
from lockstep.testbed.programs import Clip, TestbedError
from lockstep.testbed.y4m import open_clip, read_header, read_picture

SPARE_SECONDS = 25.0
"""Extra duration of the clip, because joining takes time and reading continues after the measurement."""

AROUND_SECONDS = 5.0
"""Longest duration of displayed pictures before and after the measurement."""


def barcoded(source: str, size: tuple[int, int], rate: float, seconds: float, folder: Path) -> Clip:
    """The clip with barcodes, made once for all experiments in the folder; a short video is repeated."""
    length = seconds + SPARE_SECONDS
    stem = "generated" if source == "generated" else f"{Path(source).stem}-{_identity(source)}"
    path = folder / f"{stem}-{size[0]}x{size[1]}-{rate:g}-{length:g}s.y4m"
    picture = size[0] * size[1] * 3 // 2
    # The receiver's displayed pictures are kept until they are compared.
    _check_room(
        Path(tempfile.gettempdir()), picture * rate * (seconds + AROUND_SECONDS), "; set TMPDIR to another folder"
    )
    wanted = int(length * rate)
    if not path.exists() or open_clip(path).frames < wanted:
        folder.mkdir(parents=True, exist_ok=True)
        _check_room(folder, picture * rate * length, "")
        print(f"writing barcodes into {length:.0f} s of {source}: {path}", file=sys.stderr)
        scaled = ["--size", f"{size[0]}x{size[1]}", "--rate", f"{rate:g}", "--seconds", f"{length:g}"]
        partial = path.with_suffix(".part.y4m")
        once, again = path.with_suffix(".once.y4m"), path.with_suffix(".again.y4m")
        try:
            _make([lockstep_command(), "barcode", source, str(once), *scaled], source)
            if open_clip(once).frames < wanted:
                _repeat(once, again, wanted)
                _make([lockstep_command(), "barcode", str(again), str(partial)], source)
                partial.replace(path)
            else:
                once.replace(path)
        finally:
            partial.unlink(missing_ok=True)
            once.unlink(missing_ok=True)
            again.unlink(missing_ok=True)
    return open_clip(path)


def _check_room(folder: Path, needed: float, else_what: str) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise TestbedError(
            f"pictures require {needed / 1e9:.1f} GB in {folder}, only {free / 1e9:.1f} GB are free{else_what}"
        )


def _repeat(clip: Path, output: Path, wanted: int) -> None:
    """Writes ``wanted`` pictures; the clip repeats at its end, like a camera that plays a file.

    Raises:
        TestbedError: If the clip has no picture.

    """
    if not open_clip(clip).frames:
        raise TestbedError(f"{clip.name}: the clip has no picture")
    with clip.open("rb") as stream, output.open("wb") as repeated:
        form = read_header(stream, str(clip))
        stream.seek(0)
        repeated.write(stream.read(form.length))
        for _ in range(wanted):
            picture = read_picture(stream, form)
            if picture is None:
                stream.seek(form.length)
                picture = read_picture(stream, form) or b""
            repeated.write(b"FRAME\n" + picture)
            pause(0.0)


def _make(command: list[str], source: str) -> None:
    """Runs a command that makes a clip from ``source``."""
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, **apart()) as making,  # noqa: S603
    ):
        try:
            while making.poll() is None:
                pause(0.05)
        except KeyboardInterrupt:
            making.kill()
            raise
        errors.seek(0)
        if making.returncode != 0:
            lines = errors.read().decode(errors="replace").strip().splitlines()
            why = lines[0].removeprefix("lockstep: ").removeprefix("error: ") if lines else "no message"
            raise TestbedError(f"cannot make a barcoded clip from {source}: {why}")


def _identity(source: str) -> str:
    """A hash that distinguishes a video from others of the same name and from earlier versions of the file."""
    path = Path(source)
    try:
        known = path.stat()
    except OSError:
        return hashlib.sha256(source.encode()).hexdigest()[:8]
    words = f"{path.resolve()} {known.st_size} {known.st_mtime_ns}"
    return hashlib.sha256(words.encode()).hexdigest()[:8]
