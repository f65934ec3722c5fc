"""pion: WebRTC in Go with its own bandwidth estimate (GCC). pion has no codec: libvpx codes VP8 at that rate.

Each end is a small program in `peers/pion` of a checkout. The first use builds it; LOCKSTEP_PION_PEER names one that
was built elsewhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lockstep.testbed.peers import ROOT, Peer, built_path, ends, rates_of_estimate
from lockstep.testbed.programs import OwnSession
from lockstep.testbed.session_log import sampled
from lockstep.testbed.two_ends import TwoEnds

FOLDER = ROOT / "peers" / "pion"
BUILT = built_path("lockstep-pion-peer")
PEER = Peer(
    name="the pion peer",
    variable="LOCKSTEP_PION_PEER",
    folder=FOLDER,
    built=BUILT,
    command=("go", "build", "-o", str(BUILT), "."),
    tools=("go", "cc", "pkg-config"),
    libraries={"vpx": "libvpx-dev"},
)
COUNTERS = {
    "codec_bps": "media_bits",
    "sent_bps": "sent_bits",
    "packets_sent": "packets_sent",
    "frames_sent": "frames_sent",
}
GAUGES = {
    "codec_target_bps": "target_bps",
    "transport_bps": "estimate_bps",
    "estimate_bps": "estimate_bps",
    "rtt_us": "round_trip_us",
}
MODULE = "github.com/pion/webrtc/v4"


def missing() -> str | None:
    """Missing requirements of this program; None if it can run, perhaps after a build."""
    return PEER.missing()


def _session(series: Sequence[Mapping[str, Any]]) -> OwnSession | None:
    found = sampled(series, COUNTERS, GAUGES)
    return found and replace(found, controller="gcc", codec="vp8")


def make(options: Mapping[str, str]) -> TwoEnds:
    """Makes the program with the options `start` and `cap`, the first value of its estimate and the maximum."""
    command = ends(PEER.build(), rates_of_estimate(options))
    return TwoEnds("pion", command, _version, _session)


def _version() -> str:
    """The version of pion in the program's module file."""
    try:
        words = (FOLDER / "go.mod").read_text().split()
        return f"pion {words[words.index(MODULE) + 1].removeprefix('v')}"
    except (OSError, ValueError, IndexError):
        return "pion"


def check(options: Mapping[str, str]) -> None:
    """Checks the options.

    Raises:
        TestbedError: If one is invalid; the message has the reason.

    """
    rates_of_estimate(options)
