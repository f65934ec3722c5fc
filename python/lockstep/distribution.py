"""Version of the installed package, and commands that install its requirements."""

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
"""The package's name in an index; it is imported as ``lockstep``."""
_CHECKOUT = Path(__file__).parents[2]


def installed_version() -> str:
    """The version of the installed package; in a checkout without an install, that of the workspace."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return str(_toml(_CHECKOUT / "Cargo.toml")["workspace"]["package"]["version"])


def install_command(extra: str | None = None) -> str:
    """The shell command that installs the requirements of ``extra``, or those of the package itself.

    No index has the package, so the command lists its requirements.
    """
    return install_command_for(requirements(extra))


def install_command_for(requirements: Sequence[str]) -> str:
    """The shell command that installs ``requirements`` for the running interpreter.

    The environment may come from `uv tool install`, may lack pip, or may have pip.
    """
    wanted = list(requirements)
    receipt = Path(sys.prefix) / "uv-receipt.toml"
    if receipt.is_file():
        kept = _toml(receipt)["tool"]["requirements"]
        own = next(one for one in kept if one["name"] == DISTRIBUTION)
        origin = own.get("path") or own.get("directory") or own.get("editable") or DISTRIBUTION
        extras = f"[{','.join(own['extras'])}]" if own.get("extras") else ""
        # The command replaces the environment, so it repeats earlier additions.
        wanted += [one["name"] + one.get("specifier", "") for one in kept if one["name"] != DISTRIBUTION]
        added = [word for requirement in dict.fromkeys(wanted) for word in ("--with", requirement)]
        return shlex.join([_uv(Path(origin)), "tool", "install", "--force", *added, origin + extras])
    if find_spec("pip") is None:
        return shlex.join([_uv(), "pip", "install", "--python", sys.executable, *wanted])
    return shlex.join([sys.executable, "-m", "pip", "install", *wanted])


def imported(module: str, feature: str, extra: str) -> ModuleType:
    """The module that ``feature`` requires, from the extra ``extra``.

    Raises:
        ModuleNotFoundError: If it is not installed; the message contains the command that installs the extra.

    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        message = f"{feature} requires {error.name}, of the extra `{extra}`; install it with: {install_command(extra)}"
        raise ModuleNotFoundError(message, name=error.name) from error


def requirements(extra: str | None = None) -> list[str]:
    """The requirements of ``extra``, or of the package itself, in pip's syntax.

    The requirements of an included extra are in the list.
    """
    listed = _listed(extra)
    included = (re.fullmatch(rf"{DISTRIBUTION}\[(\w+)\]", requirement) for requirement in listed)
    others = [found[1] for found in included if found is not None]
    own = [requirement for requirement in listed if not requirement.startswith(f"{DISTRIBUTION}[")]
    return [requirement for other in others for requirement in requirements(other)] + own


def _listed(extra: str | None) -> list[str]:
    """The entries of an extra, unchanged."""
    try:
        listed = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        project = _toml(_CHECKOUT / "pyproject.toml")["project"]
        return list(project["dependencies"] if extra is None else project["optional-dependencies"][extra])
    marker = "" if extra is None else f"extra=='{extra}'"
    parts = [requirement.partition(";") for requirement in listed]
    return [name.strip() for name, _, found in parts if found.replace(" ", "").replace('"', "'") == marker]


def _uv(origin: Path = _CHECKOUT) -> str:
    """The uv on the PATH, or that of the checkout, which is ``origin`` or contains that wheel."""
    checkouts = (folder / ".venv" / "bin" for folder in (origin, *origin.parents))
    return shutil.which("uv") or next(filter(None, (shutil.which("uv", path=str(at)) for at in checkouts)), "uv")


@cache
def _toml(path: Path) -> Mapping[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))
