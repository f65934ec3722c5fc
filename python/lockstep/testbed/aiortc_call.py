"""aiortc: WebRTC in Python, VP8 with libvpx and a bandwidth estimate at the receiver (REMB); each end is a process."""

import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from lockstep.distribution import install_command
from lockstep.testbed.programs import Setting, TestbedError
from lockstep.testbed.two_ends import TwoEnds


def missing() -> str | None:
    """What this program takes and is not here; None if it can run."""
    return None if find_spec("aiortc") else f"aiortc is missing; install it with: {install_command('testbed')}"


def _command(role: str, setting: Setting) -> list[str]:
    return [sys.executable, "-m", "lockstep.testbed.aiortc_end", role, str(setting.work), str(setting.clip.path)]


def _version() -> str:
    try:
        return f"aiortc {version('aiortc')}"
    except PackageNotFoundError:
        return "aiortc"


def make(options: Mapping[str, str]) -> TwoEnds:  # noqa: ARG001 - it has none
    """The program."""
    if lacking := missing():
        raise TestbedError(lacking)
    return TwoEnds("aiortc", _command, _version)


def check(options: Mapping[str, str]) -> None:
    """There is nothing to check: it takes no options."""
