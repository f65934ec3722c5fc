"""str0m: WebRTC in Rust with its own bandwidth estimate, with frames of Lockstep's VP8 codec at that rate.

Each end is a small program in `peers/str0m` of a checkout. The first use builds it; LOCKSTEP_STR0M_PEER names one that
was built elsewhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lockstep.testbed.chromium import bits_per_second
from lockstep.testbed.peers import ROOT, Peer, built_path, cargo_command, ends, locked_version
from lockstep.testbed.programs import OwnSession
from lockstep.testbed.session_log import sampled
from lockstep.testbed.two_ends import TwoEnds

FOLDER = ROOT / "peers" / "str0m"
PEER = Peer(
    name="the str0m peer",
    variable="LOCKSTEP_STR0M_PEER",
    folder=FOLDER,
    built=built_path("lockstep-str0m-peer"),
    command=cargo_command(FOLDER),
    tools=("cargo",),
)
COUNTERS = {"codec_bps": "media_bits", "frames_sent": "frames_sent"}
GAUGES = {
    "codec_target_bps": "target_bps",
    "transport_bps": "estimate_bps",
    "estimate_bps": "estimate_bps",
    "rtt_us": "round_trip_us",
}


def missing() -> str | None:
    """Missing requirements of this program; None if it can run, perhaps after a build."""
    return PEER.missing()


def _session(series: Sequence[Mapping[str, Any]]) -> OwnSession | None:
    found = sampled(series, COUNTERS, GAUGES)
    return found and replace(found, controller="str0m", codec="vp8")


def make(options: Mapping[str, str]) -> TwoEnds:
    """Makes the program with the option `cap`, its maximum bit rate."""
    command = ends(PEER.build(), {"cap": bits_per_second(options["cap"])})
    return TwoEnds("str0m", command, _version, _session)


def _version() -> str:
    """The version of str0m in the program's lock file."""
    return f"str0m {locked_version('str0m', FOLDER / 'Cargo.lock')}".strip()


def check(options: Mapping[str, str]) -> None:
    """Checks the options.

    Raises:
        TestbedError: If one is invalid; the message has the reason.

    """
    bits_per_second(options["cap"])
