"""GStreamer's webrtcbin in a simple pipeline: VP8 by vp8enc at one bit rate, its jitter buffer and sink.

Debian's GStreamer has no bandwidth estimate for it (`rtpgccbwe` is in gst-plugins-rs, which is not packaged). So it
sends at the configured rate on any link. The bindings are those of the system's Python.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from lockstep.testbed.chromium import bits_per_second
from lockstep.testbed.programs import OwnSession, Setting, TestbedError
from lockstep.testbed.session_log import sampled
from lockstep.testbed.two_ends import TwoEnds

PYTHONS = ("/usr/bin/python3", sys.executable)
"""The system's Python, which has the bindings, and this one, which may have them."""
MAX_LATENCY_MS = 10_000
COUNTERS = {
    "codec_bps": "media_bits",
    "sent_bps": "sent_bits",
    "packets_sent": "packets_sent",
    "frames_sent": "frames_sent",
}
GAUGES = {"codec_target_bps": "target_bps", "rtt_us": "round_trip_us"}


def _script() -> str:
    return str(Path(__file__).with_name("gstreamer_end.py"))


@cache
def _found() -> tuple[str, str, str]:
    """The missing requirements, or else the Python with GStreamer and its version."""
    lacking = ""
    for python in PYTHONS:
        if not Path(python).exists():
            continue
        tried = subprocess.run([python, "-I", _script(), "check"], check=False, capture_output=True, text=True)  # noqa: S603
        problem, *rest = tried.stdout.splitlines() or ["the check for GStreamer failed"]
        if not problem and rest:
            return "", python, rest[0]
        lacking = lacking or problem
    return lacking or "no Python with GStreamer's bindings was found", "", ""


def missing() -> str | None:
    """Missing requirements of this program; None if it can run."""
    return _found()[0] or None


def _session(series: Sequence[Mapping[str, Any]]) -> OwnSession | None:
    found = sampled(series, COUNTERS, GAUGES)
    return found and replace(found, controller="fixed", codec="vp8")


def make(options: Mapping[str, str]) -> TwoEnds:
    """Makes the program with the options `bitrate` and `latency` (of its jitter buffer, ms)."""
    lacking, python, version = _found()
    if lacking:
        raise TestbedError(lacking)
    encoded = json.dumps({**options, "bitrate": str(bits_per_second(options["bitrate"]))})

    def command(role: str, setting: Setting) -> list[str]:
        return [python, "-I", _script(), role, str(setting.work), str(setting.clip.path), encoded]

    return TwoEnds("gstreamer", command, lambda: version, _session)


def check(options: Mapping[str, str]) -> None:
    """Checks the options.

    Raises:
        TestbedError: If one is invalid; the message lists the valid values.

    """
    bits_per_second(options["bitrate"])
    if not options["latency"].isdigit() or int(options["latency"]) > MAX_LATENCY_MS:
        raise TestbedError(f"latency={options['latency']} is not a time from 0 to {MAX_LATENCY_MS} ms")
