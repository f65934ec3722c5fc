"""Finds the ``lockstep`` command, which runs what the extension module does not."""

import os
import shutil
import sysconfig
from pathlib import Path


def lockstep_command() -> str:
    """The path of the `lockstep` command.

    The environment variable LOCKSTEP_COMMAND names it; the command itself sets it. Otherwise the command of this
    checkout is used, then the one installed with the package, then the one on the PATH.

    Raises:
        ValueError: If it is not found.

    """
    if named := os.environ.get("LOCKSTEP_COMMAND"):
        return named
    own = Path(__file__).parents[2] / "target" / "release" / "lockstep"
    installed = shutil.which("lockstep", path=sysconfig.get_path("scripts"))
    found = str(own) if own.exists() else installed or shutil.which("lockstep")
    if found is None:
        raise ValueError("cannot find the lockstep command; install it, or run make build in a checkout")
    return found
