"""Where the ``lockstep`` command is, for what is run by it and not by the extension module."""

import os
import shutil
import sysconfig
from pathlib import Path


def lockstep_command() -> str:
    """Where the `lockstep` command is.

    LOCKSTEP_COMMAND names it (that command sets it); else it is of this checkout, installed with the package, or on the
    PATH.

    Raises:
        ValueError: If it is nowhere.

    """
    if named := os.environ.get("LOCKSTEP_COMMAND"):
        return named
    own = Path(__file__).parents[2] / "target" / "release" / "lockstep"
    beside = shutil.which("lockstep", path=sysconfig.get_path("scripts"))
    found = str(own) if own.exists() else beside or shutil.which("lockstep")
    if found is None:
        raise ValueError("the lockstep command is not installed; in a checkout, make build makes it")
    return found
