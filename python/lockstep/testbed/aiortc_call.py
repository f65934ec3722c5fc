"""aiortc: WebRTC in Python, VP8 with libvpx and a bandwidth estimate at the receiver (REMB), one process per end."""

import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from lockstep.distribution import install_command
from lockstep.testbed.programs import Setting, TestbedError
from lockstep.testbed.two_ends import TwoEnds


def missing() -> str | None:
    """Missing requirements of this program; None if it can run."""
    return None if find_spec("aiortc") else f"cannot import aiortc; install it with: {install_command('testbed')}"


def _command(role: str, setting: Setting) -> list[str]:
    return [sys.executable, "-m", "lockstep.testbed.aiortc_end", role, str(setting.work), str(setting.clip.path)]


def _version() -> str:
    try:
        return f"aiortc {version('aiortc')}"
    except PackageNotFoundError:
        return "aiortc"


def make(options: Mapping[str, str]) -> TwoEnds:  # noqa: ARG001 - no options
    """Makes the program."""
    if lacking := missing():
        raise TestbedError(lacking)
    return TwoEnds("aiortc", _command, _version)


def check(options: Mapping[str, str]) -> None:
    """Does nothing: the program has no options."""
