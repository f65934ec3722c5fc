"""Which Lockstep this is."""

import tomllib
from importlib import metadata
from pathlib import Path

DISTRIBUTION = "lockstep-video"
"""The package's name where packages are installed from; ``lockstep`` is what it is imported as."""


def installed_version() -> str:
    """The version of the installed package; in a checkout that is not installed, the one that the workspace has."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        workspace = tomllib.loads((Path(__file__).parents[2] / "Cargo.toml").read_text(encoding="utf-8"))
        return str(workspace["workspace"]["package"]["version"])
