"""Which Lockstep this is, and how what it needs is installed."""

import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

DISTRIBUTION = "lockstep-video"
"""The package's name where packages are installed from; ``lockstep`` is what it is imported as."""
_CHECKOUT = Path(__file__).parents[2]


def installed_version() -> str:
    """The version of the installed package; in a checkout that is not installed, the one that the workspace has."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return str(_toml(_CHECKOUT / "Cargo.toml")["workspace"]["package"]["version"])


def install_command(extra: str | None = None) -> str:
    """The shell command that installs what ``extra`` of the package requires; without one, what the package requires.

    No index has the package, so the command names its requirements.
    """
    return install_command_for(requirements(extra))


def install_command_for(requirements: Sequence[str]) -> str:
    """The shell command that installs ``requirements`` for the running interpreter.

    That is of the environment of `uv tool install`, of one without pip, or of one with pip.
    """
    wanted = list(requirements)
    receipt = Path(sys.prefix) / "uv-receipt.toml"
    if receipt.is_file():
        kept = _toml(receipt)["tool"]["requirements"]
        own = next(one for one in kept if one["name"] == DISTRIBUTION)
        origin = own.get("path") or own.get("directory") or own.get("editable") or DISTRIBUTION
        extras = f"[{','.join(own['extras'])}]" if own.get("extras") else ""
        # The command replaces the environment: it names what was added earlier, too.
        wanted += [one["name"] + one.get("specifier", "") for one in kept if one["name"] != DISTRIBUTION]
        added = [word for requirement in dict.fromkeys(wanted) for word in ("--with", requirement)]
        return shlex.join([_uv(Path(origin)), "tool", "install", "--force", *added, origin + extras])
    if find_spec("pip") is None:
        return shlex.join([_uv(), "pip", "install", "--python", sys.executable, *wanted])
    return shlex.join([sys.executable, "-m", "pip", "install", *wanted])


def imported(module: str, feature: str, extra: str) -> ModuleType:
    """The module that ``feature`` requires, of ``extra`` of the package.

    Raises:
        ModuleNotFoundError: If it is not installed; the message has the command that installs the extra.

    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        message = f"{feature} requires {error.name}, of the extra `{extra}`; install it with: {install_command(extra)}"
        raise ModuleNotFoundError(message, name=error.name) from error


def requirements(extra: str | None = None) -> list[str]:
    """What ``extra`` of the package requires, as pip takes it; without one, what the package requires.

    Requirements of an extra that it includes are among them.
    """
    listed = _listed(extra)
    included = (re.fullmatch(rf"{DISTRIBUTION}\[(\w+)\]", requirement) for requirement in listed)
    others = [found[1] for found in included if found is not None]
    own = [requirement for requirement in listed if not requirement.startswith(f"{DISTRIBUTION}[")]
    return [requirement for other in others for requirement in requirements(other)] + own


def _listed(extra: str | None) -> list[str]:
    """The entries of an extra, as they are."""
    try:
        listed = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        project = _toml(_CHECKOUT / "pyproject.toml")["project"]
        return list(project["dependencies"] if extra is None else project["optional-dependencies"][extra])
    marker = "" if extra is None else f"extra=='{extra}'"
    parts = [requirement.partition(";") for requirement in listed]
    return [name.strip() for name, _, found in parts if found.replace(" ", "").replace('"', "'") == marker]


def _uv(origin: Path = _CHECKOUT) -> str:
    """The uv of the PATH, or that of the checkout, which is ``origin`` or has that wheel."""
    checkouts = (folder / ".venv" / "bin" for folder in (origin, *origin.parents))
    return shutil.which("uv") or next(filter(None, (shutil.which("uv", path=str(at)) for at in checkouts)), "uv")


@cache
def _toml(path: Path) -> Mapping[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))
