"""Firefox's own WebRTC: two browser processes with one page each, which call each other like any page.

Firefox has no camera that plays a file. The page sends the capture of a <video> that plays the clip. The clip is
lossless VP9, so that the encoder gets its exact pictures. The sender keeps its encoded frames. Their barcodes, decoded
after the call, give the capture times, later by the encoding time.

At the receiver, requestVideoFrameCallback identifies the displayed frames. `RTCRtpScriptTransform` keeps the encoded
frames, and the driver decodes them after the call. Once a second the page reads the barcodes on the screen, to verify
that the decoded pictures are those displayed.
"""

import base64
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lockstep.testbed import barcodes
from lockstep.testbed.chromium import COUNTERS, GAUGES, bits_per_second, inbound, outbound
from lockstep.testbed.decoding import EncodedFrame, confirmed, decoded
from lockstep.testbed.firefox_end import BROWSERS
from lockstep.testbed.machine import lower_priority, process_tree
from lockstep.testbed.processes import end_group, pause
from lockstep.testbed.programs import Clip, Outcome, OwnSession, Samples, Setting, Shown, TestbedError, executable
from lockstep.testbed.ruler import Sight
from lockstep.testbed.session_log import sampled
from lockstep.testbed.two_ends import ROLES, TwoEnds, lines_of

CODECS = ("vp8", "vp9", "av1", "h264")
CHECK_EVERY_MS = 1000.0
"""Interval at which the receiver reads the barcodes on the screen."""
CAMERA = "RDD Process"
"""Firefox's name for the process that decodes files."""
LUMA = np.array([0.114, 0.587, 0.299])
"""Weights of blue, green and red in luma (ITU-R BT.601)."""


def missing() -> str | None:
    """Missing requirements of this program; None if it can run."""
    if not any(shutil.which(name) for name in BROWSERS):
        return "firefox is not installed (Debian: apt install firefox-esr)"
    if shutil.which("ffmpeg") is None:
        return "ffmpeg, which encodes the clip for Firefox, is not installed (Debian, Ubuntu: apt install ffmpeg)"
    return None


class Firefox(TwoEnds):
    """A call between two Firefoxes."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Sets the options `codec` and `cap` (`default`, or a bit rate such as `12mbps`)."""
        super().__init__("firefox", self._words, self._browser_version)
        self._codec = options["codec"]
        self._cap = None if options["cap"] == "default" else bits_per_second(options["cap"])
        self._wanted: dict[int, int] = {}
        self._on_screen: dict[int, int | None] = {}
        self._playable = Path()
        self.identical = 0
        self.different = 0

    def start(self, setting: Setting) -> Mapping[str, int]:
        """Encodes the clip for the browser unless it exists, and starts both ends."""
        self._playable = playable(setting.clip)
        ends = super().start(setting)
        # The process that decodes the clip acts as the camera. It buffers many pictures and must not delay the
        # programs.
        for process in process_tree(ends["sender"]):
            if _name(process) == CAMERA:
                lower_priority(process)
                return {"camera": process, **ends}
        return ends

    def _words(self, role: str, setting: Setting) -> Sequence[str]:
        clip = setting.clip
        reading = {"width": clip.width, "height": clip.height, "regions": barcodes.regions(clip.width, clip.height)}
        options: dict[str, Any] = {"reading": reading}
        if role == "sender":
            options |= {"codec": self._codec, "maxBitrate": self._cap}
        else:
            options |= {"digestEvery": CHECK_EVERY_MS}
        words = (role, str(setting.work), str(self._playable if role == "sender" else clip.path), json.dumps(options))
        return [sys.executable, "-m", "lockstep.testbed.firefox_end", *words]

    def _browser_version(self) -> str:
        assert self._setting is not None  # noqa: S101
        return "Firefox " + (self._setting.work / "sender.version").read_text()

    def stop(self) -> Outcome:
        """Ends both ends, and decodes the sent and the displayed frames."""
        assert self._setting is not None  # noqa: S101
        work, clip = self._setting.work, self._setting.clip
        self.close()
        clocks = {role: _clock(work / f"{role}.clock") for role in ROLES}
        sent = self._frames("sender")
        captured = []
        for frame, picture in decoded([one for one, _ in sent], self._codec, clip, work):
            if (number := barcodes.read(clip.luma(np.frombuffer(picture, np.uint8)))) is not None:
                at = next(time for one, time in sent if one.rtp == frame.rtp)
                captured.append(Sight(number, at - clocks["sender"][0]))
        rows = lines_of(work / "receiver.rows")
        self._on_screen = {row["rtp"]: _number(row) for row in rows if row.get("checked") and "regions" in row}
        seen = [row for row in rows if "at" in row and row["rtp"] is not None]
        self._wanted = {row["rtp"]: key for key, row in enumerate(seen)}
        numbers = {
            frame.rtp: barcodes.read(clip.luma(np.frombuffer(picture, np.uint8)))
            for frame, picture in self._arrived()
            if frame.rtp in self._wanted
        }
        shown = [
            Shown(Sight(number, row["at"] / 1000.0 - clocks["receiver"][0]), self._wanted[row["rtp"]])
            for row in seen
            if (number := numbers.get(row["rtp"])) is not None
        ]
        series = [
            {"at": one["at"], **outbound(one["stats"]), **inbound(other["stats"])}
            for one, other in zip(lines_of(work / "sender.series"), lines_of(work / "receiver.series"), strict=False)
        ]
        return Outcome(
            previews=all_captured(captured, clip),
            shown=shown,
            unread=sum(numbers.get(row["rtp"]) is None for row in seen),
            clock_error=max(error for _, error in clocks.values()),
            limited=sorted({str(one["limited"]) for one in series if one["limited"] not in (None, "none")}),
            details={
                "version": self._browser_version(),
                "series": series,
                "encoded": len(captured),
                "played": [one["played"] for one in lines_of(work / "sender.series")],
            },
            session=self._session_of(series) if self._setting.session_log else None,
        )

    def _session_of(self, series: Sequence[Mapping[str, Any]]) -> OwnSession | None:
        found = sampled(series, COUNTERS, GAUGES)
        return found and replace(found, controller="gcc", codec=self._codec)

    def _frames(self, role: str) -> list[tuple[EncodedFrame, float]]:
        """The encoded frames that passed an end, with their times, s on its page's clock."""
        assert self._setting is not None  # noqa: S101
        return [
            (EncodedFrame(line["rtp"], bool(line["key"]), base64.b64decode(line["data"])), line["at"] / 1000.0)
            for line in lines_of(self._setting.work / f"{role}.encoded")
        ]

    def _arrived(self) -> Iterator[tuple[EncodedFrame, bytes]]:
        assert self._setting is not None  # noqa: S101
        frames = [frame for frame, _ in self._frames("receiver")]
        return decoded(frames, self._codec, self._setting.clip, self._setting.work)

    def pictures(self) -> Iterator[tuple[int, Samples]]:
        """Decodes the received frames as the browser's decoder did; skips those that differ from the screen."""
        assert self._setting is not None  # noqa: S101
        clip = self._setting.clip

        def judge(frame: EncodedFrame, picture: bytes) -> bool | None:
            if (number := self._on_screen.get(frame.rtp)) is None:
                return None
            same = number == barcodes.read(clip.luma(np.frombuffer(picture, np.uint8)))
            self.identical += same
            self.different += not same
            return same

        return confirmed(self._arrived(), self._wanted, judge)

    def close(self) -> None:
        """Ends both ends, and any remaining processes of their browsers."""
        leaders = [process.pid for process in self._processes.values()]
        super().close()
        for leader in leaders:
            end_group(leader)


def playable(clip: Clip) -> Path:
    """The clip in a format that Firefox plays, next to the clip: lossless VP9, made once and verified.

    Raises:
        TestbedError: If ffmpeg cannot make it, or the result differs from the clip.

    """
    path = clip.path.with_suffix(".webm")
    if path.exists() and path.stat().st_mtime >= clip.path.stat().st_mtime:
        return path
    ffmpeg = executable("ffmpeg", "ffmpeg")
    print(f"encoding a lossless clip for firefox: {path}", file=sys.stderr)
    partial = path.with_suffix(".part.webm")
    words = ["-c:v", "libvpx-vp9", "-lossless", "1", "-deadline", "realtime", "-cpu-used", "8", "-g", "30"]
    try:
        _run([ffmpeg, "-y", "-i", str(clip.path), *words, str(partial)])
        sums = {_run([ffmpeg, "-i", str(one), "-pix_fmt", "yuv420p", "-f", "md5", "-"]) for one in (clip.path, partial)}
        if len(sums) != 1:
            raise TestbedError("ffmpeg's lossless VP9 differs from the clip")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def _run(command: list[str]) -> bytes:
    made = subprocess.Popen(  # noqa: S603
        [command[0], "-v", "error", *command[1:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        while made.poll() is None:
            pause(0.05)
    except KeyboardInterrupt:
        made.kill()
        raise
    out, errors = made.communicate()
    if made.returncode != 0:
        raise TestbedError(f"ffmpeg: {errors.decode(errors='replace').strip().splitlines()[-1:]}")
    return out


def all_captured(encoded: Sequence[Sight], clip: Clip) -> list[Sight]:
    """The pictures that the camera delivered, from those that were encoded: the encoder skips some at low rates.

    A skipped picture was on time if its neighbours were on time within half a frame.
    """
    found: list[Sight] = []
    for sight in encoded:
        if found:
            before = found[-1]
            between = (sight.number - before.number) % clip.frames
            if between > 1 and abs(sight.at - before.at - between / clip.rate) < 0.5 / clip.rate:
                found += [
                    Sight((before.number + step) % clip.frames, before.at + (sight.at - before.at) * step / between)
                    for step in range(1, between)
                ]
        found.append(sight)
    return found


def _name(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return ""


def _clock(path: Path) -> tuple[float, float]:
    """Offset of the page's clock from the machine's, by the shortest reading, and the largest error of the offset."""
    took, ahead = min((line["took"], line["page_ms"] / 1000.0 - line["at"]) for line in lines_of(path))
    return ahead, took / 2


def _number(row: Mapping[str, Any]) -> int | None:
    """The number in a picture on the screen; the page copied its two barcodes in RGB."""
    if len(row["regions"]) != 2:
        return None
    cuts = []
    for cut in row["regions"]:
        rect = cut["rect"]
        pixels = np.frombuffer(base64.b64decode(cut["bytes"]), np.uint8).reshape(-1, cut["stride"])
        pixels = pixels[:, : 4 * rect["width"]].reshape(rect["height"], rect["width"], 4)[:, :, :3]
        weights = LUMA if row["format"].startswith("BGR") else LUMA[::-1]
        luma = np.clip(pixels @ weights, 0.0, 255.0).astype(np.uint8)
        cuts.append(((rect["x"], rect["y"], rect["width"], rect["height"]), luma))
    return barcodes.read_cut(row["width"], row["height"], cuts)


def make(options: Mapping[str, str]) -> Firefox:
    """Makes the program with these options."""
    if lacking := missing():
        raise TestbedError(lacking)
    return Firefox(options)


def check(options: Mapping[str, str]) -> None:
    """Checks the options of Firefox before it starts.

    Raises:
        TestbedError: If one is invalid; the message lists the valid values.

    """
    if options["codec"] not in CODECS:
        raise TestbedError(f"codec={options['codec']} is unknown to Firefox; expected one of {', '.join(CODECS)}")
    if options["cap"] != "default":
        bits_per_second(options["cap"])
