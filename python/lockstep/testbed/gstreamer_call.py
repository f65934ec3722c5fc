"""GStreamer's webrtcbin in a simple pipeline: VP8 by vp8enc, its jitter buffer and sink.

With `control=fixed` it sends at one bit rate on any link. With `control=gcc` the element `rtpgccbwe` of gst-plugins-rs
estimates the bandwidth and paces packets. Where it is not installed, the first use builds it from the crate
gst-plugin-rtp (`peers/gstreamer-gcc` of a checkout); LOCKSTEP_GSTREAMER_GCC names a plugin that was built elsewhere.
The bindings are those of the system's Python.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from lockstep.testbed.chromium import bits_per_second
from lockstep.testbed.peers import ROOT, Peer, built_path, cargo_command, rates_of_estimate
from lockstep.testbed.programs import OwnSession, Setting, TestbedError
from lockstep.testbed.session_log import sampled
from lockstep.testbed.two_ends import TwoEnds

PYTHONS = ("/usr/bin/python3", sys.executable)
"""The system's Python, which has the bindings, and this one, which may have them."""
MAX_LATENCY_MS = 10_000
CONTROLS = ("fixed", "gcc")
FOLDER = ROOT / "peers" / "gstreamer-gcc"
PLUGIN = Peer(
    name="GStreamer's rtpgccbwe",
    variable="LOCKSTEP_GSTREAMER_GCC",
    folder=FOLDER,
    built=built_path("libgstrsrtp.so"),
    command=cargo_command(FOLDER, "--package", "gst-plugin-rtp"),
    tools=("cargo", "pkg-config"),
    libraries={"gstreamer-1.0": "libgstreamer1.0-dev", "gstreamer-rtp-1.0": "libgstreamer-plugins-base1.0-dev"},
)
COUNTERS = {
    "codec_bps": "media_bits",
    "sent_bps": "sent_bits",
    "packets_sent": "packets_sent",
    "frames_sent": "frames_sent",
}
GAUGES = {"codec_target_bps": "target_bps", "rtt_us": "round_trip_us"}
ESTIMATES = {"transport_bps": "estimate_bps", "estimate_bps": "estimate_bps"}
"""Further columns with `control=gcc`."""


class Installed(NamedTuple):
    """What the system has of GStreamer."""

    lacking: str
    """The missing requirements, or an empty text."""
    python: str = ""
    """A Python with the bindings."""
    version: str = ""
    estimates: bool = False
    """Whether rtpgccbwe is installed."""


def _script() -> str:
    return str(Path(__file__).with_name("gstreamer_end.py"))


@cache
def _found() -> Installed:
    lacking = ""
    for python in PYTHONS:
        if not Path(python).exists():
            continue
        tried = subprocess.run([python, "-I", _script(), "check"], check=False, capture_output=True, text=True)  # noqa: S603
        problem, *rest = tried.stdout.splitlines() or ["the check for GStreamer failed"]
        if not problem and rest:
            return Installed("", python, rest[0], "rtpgccbwe" in rest[1:])
        lacking = lacking or problem
    return Installed(lacking or "no Python with GStreamer's bindings was found")


def missing() -> str | None:
    """Missing requirements of this program with `control=fixed`; None if it can run."""
    return _found().lacking or None


def _needs_plugin(options: Mapping[str, str]) -> bool:
    return options["control"] == "gcc" and (not _found().estimates or PLUGIN.variable in os.environ)


def make(options: Mapping[str, str]) -> TwoEnds:
    """Makes the program with its options.

    `control` is fixed or gcc. `bitrate` is the rate of fixed. `start` and `cap` are the first estimate of gcc and the
    maximum. `latency` is the length of the jitter buffer, ms.
    """
    found = _found()
    if found.lacking:
        raise TestbedError(found.lacking)
    rates = {"bitrate": bits_per_second(options["bitrate"]), **rates_of_estimate(options)}
    plugin = str(PLUGIN.build()) if _needs_plugin(options) else ""
    encoded = json.dumps({**options, **rates, "plugin": plugin})
    gauges = GAUGES | (ESTIMATES if options["control"] == "gcc" else {})

    def command(role: str, setting: Setting) -> list[str]:
        return [found.python, "-I", _script(), role, str(setting.work), str(setting.clip.path), encoded]

    def session(series: Sequence[Mapping[str, Any]]) -> OwnSession | None:
        seconds = sampled(series, COUNTERS, gauges)
        return seconds and replace(seconds, controller=options["control"], codec="vp8")

    return TwoEnds("gstreamer", command, lambda: found.version, session)


def check(options: Mapping[str, str]) -> None:
    """Checks the options.

    Raises:
        TestbedError: If one is invalid or its requirements are missing; the message has the valid values or the reason.

    """
    bits_per_second(options["bitrate"])
    rates_of_estimate(options)
    if not options["latency"].isdigit() or int(options["latency"]) > MAX_LATENCY_MS:
        raise TestbedError(f"latency={options['latency']} is not a time from 0 to {MAX_LATENCY_MS} ms")
    if options["control"] not in CONTROLS:
        raise TestbedError(f"control={options['control']} is not one of {', '.join(CONTROLS)}")
    if _needs_plugin(options) and (lacking := PLUGIN.missing()):
        raise TestbedError(lacking)
