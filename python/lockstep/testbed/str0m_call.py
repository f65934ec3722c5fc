"""str0m: WebRTC in Rust with its own bandwidth estimate, with frames of Lockstep's VP8 codec at that rate.

Each end is a small program in `peers/str0m` of a checkout. It is outside the workspace, so that no shipped crate
depends on str0m. The first use builds it; LOCKSTEP_STR0M_PEER names one that was built elsewhere.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lockstep.testbed.chromium import bits_per_second
from lockstep.testbed.processes import apart, pause
from lockstep.testbed.programs import OwnSession, Setting, TestbedError
from lockstep.testbed.session_log import sampled
from lockstep.testbed.two_ends import TwoEnds

NAMED = "LOCKSTEP_STR0M_PEER"
ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "peers" / "str0m"
BUILT = ROOT / "target" / "peers" / "release" / "lockstep-str0m-peer"
COUNTERS = {"codec_bps": "media_bits", "frames_sent": "frames_sent"}
GAUGES = {
    "codec_target_bps": "target_bps",
    "transport_bps": "estimate_bps",
    "estimate_bps": "estimate_bps",
    "rtt_us": "round_trip_us",
}


def built() -> Path | None:
    """The program, if it exists and is not older than its sources."""
    if named := os.environ.get(NAMED):
        return Path(named) if Path(named).exists() else None
    if not BUILT.exists():
        return None
    sources = [PACKAGE / "Cargo.toml", *(PACKAGE / "src").glob("*.rs")]
    newest = max((source.stat().st_mtime for source in sources if source.exists()), default=0.0)
    return BUILT if BUILT.stat().st_mtime >= newest else None


def missing() -> str | None:
    """Missing requirements of this program; None if it can run, perhaps after a build."""
    if built() is not None:
        return None
    if named := os.environ.get(NAMED):
        return f"{NAMED}: no such file {named}"
    if not PACKAGE.exists():
        return f"its program requires a checkout of Lockstep (peers/str0m), or {NAMED} set to a built one"
    if shutil.which("cargo") is None:
        return "cargo, which builds its program, is not installed (https://rustup.rs)"
    return None


def _build() -> Path:
    """The program, built if needed.

    Raises:
        TestbedError: If the build fails; the message has the reason.

    """
    if (found := built()) is not None:
        return found
    print(f"building the str0m peer (once, takes minutes): {BUILT}", file=sys.stderr)
    command = ["cargo", "build", "--release", "--locked", "--manifest-path", str(PACKAGE / "Cargo.toml")]
    command += ["--target-dir", str(ROOT / "target" / "peers")]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, **apart()) as making,  # noqa: S603
    ):
        try:
            while making.poll() is None:
                pause(0.2)
        except KeyboardInterrupt:
            making.terminate()
            raise
        errors.seek(0)
        if making.returncode != 0 or not BUILT.exists():
            wrong = [line for line in errors if line.startswith("error")]
            raise TestbedError(f"cannot build the str0m peer: {(wrong or ['no message from cargo'])[0].strip()}")
    return BUILT


def _session(series: Sequence[Mapping[str, Any]]) -> OwnSession | None:
    found = sampled(series, COUNTERS, GAUGES)
    return found and replace(found, controller="str0m", codec="vp8")


def make(options: Mapping[str, str]) -> TwoEnds:
    """Makes the program with the option `cap`, its maximum bit rate."""
    if lacking := missing():
        raise TestbedError(lacking)
    program = _build()
    encoded = json.dumps({"cap": bits_per_second(options["cap"])})

    def command(role: str, setting: Setting) -> list[str]:
        side = setting.sender if role == "sender" else setting.receiver
        return [str(program), role, str(setting.work), str(setting.clip.path), side.address, encoded]

    return TwoEnds("str0m", command, _version, _session)


def _version() -> str:
    """The version of str0m in the program's lock file."""
    try:
        lines = (PACKAGE / "Cargo.lock").read_text().splitlines()
        version = lines[lines.index('name = "str0m"') + 1].split('"')[1]
    except (OSError, ValueError, IndexError):
        return "str0m"
    return f"str0m {version}"


def check(options: Mapping[str, str]) -> None:
    """Checks the options.

    Raises:
        TestbedError: If one is invalid; the message has the reason.

    """
    bits_per_second(options["cap"])
