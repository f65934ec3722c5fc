"""How the package is built: by maturin, which is told to put the ``lockstep`` command into the wheel as well.

maturin packs an extension module or programs, not both, but it packs what lies in the wheel's data folder, and what is
in its ``scripts`` installers put on the PATH. So the command is built first, by the same Cargo in the same folder with
the same profile: what it shares with the extension is compiled once. It stays a program of its own: signals, the
processes that it starts of itself and the key under which a sweep keeps its results do not go through Python.
"""

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import maturin
from maturin import (
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

# maturin takes a backend around it for none at all.
os.environ.setdefault("MATURIN_NO_MISSING_BUILD_BACKEND_WARNING", "1")

DATA = Path("lockstep._lockstep.data")
"""Where maturin looks for a wheel's data: beside pyproject.toml, called after the extension module."""


def build_wheel(
    wheel_directory: str, config_settings: Mapping[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Builds the wheel; gives its name."""
    with _command_as_data():
        return str(maturin.build_wheel(wheel_directory, config_settings, metadata_directory))


def build_editable(
    wheel_directory: str, config_settings: Mapping[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Builds the wheel of an editable install; gives its name. The command in it is a copy, as everywhere else."""
    with _command_as_data():
        return str(maturin.build_editable(wheel_directory, config_settings, metadata_directory))


@contextlib.contextmanager
def _command_as_data() -> Iterator[None]:
    """Has the command, without what only debuggers read, in the wheel's data for as long as the block runs."""
    program = _command()
    scripts = DATA / "scripts"
    shutil.rmtree(DATA, ignore_errors=True)
    try:
        scripts.mkdir(parents=True)
        copy = scripts / program.name
        shutil.copy2(program, copy)
        strip = shutil.which("strip")
        if strip is not None and os.name == "posix":
            subprocess.run([strip, str(copy)], check=True)  # noqa: S603
        yield
    finally:
        shutil.rmtree(DATA, ignore_errors=True)


def _command() -> Path:
    """The command, built. Cargo shows on standard error how far it is."""
    words = ["build", "--release", "--package", "lockstep-cli", "--message-format", "json-render-diagnostics"]
    # What the Makefile builds, so that it is not built again.
    if features := os.environ.get("LOCKSTEP_FEATURES"):
        words += ["--features", features]
    cargo = os.environ.get("CARGO", "cargo")
    try:
        built = subprocess.run([cargo, *words], check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
    except OSError as error:
        raise SystemExit(f"cannot run {cargo}: {error}; Lockstep is built with Rust, https://rustup.rs") from error
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"the lockstep command could not be built; cargo ended with {error.returncode}") from error
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == "lockstep":
            return Path(message["executable"])
    raise SystemExit("cargo built no lockstep command")
