"""Where the ``lockstep`` command is, for what is run by it and not by the extension module."""

import os
import shutil
from pathlib import Path


def lockstep_command() -> str:
    """Where the `lockstep` command is: LOCKSTEP_COMMAND (which that command sets), of this checkout, or installed.

    Raises:
        ValueError: If it is nowhere.

    """
    own = Path(__file__).parents[2] / "target" / "release" / "lockstep"
    found = os.environ.get("LOCKSTEP_COMMAND") or (str(own) if own.exists() else shutil.which("lockstep"))
    if found is None:
        raise ValueError("the lockstep command is not installed; in a checkout, make build makes it")
    return found
