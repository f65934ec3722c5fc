"""Build backend of the package: maturin, plus the ``lockstep`` command in the wheel.

maturin packs either an extension module or programs. It also packs the wheel's data folder, and installers put the
files of its ``scripts`` folder on the PATH. So this module builds the command first. Cargo uses the same folder and
profile, and compiles the crates that command and extension share once. The command stays a separate program. So
Python does not handle its signals, its child processes or the key under which a sweep keeps results.
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

# Without this, maturin warns that the build backend is missing, because it does not recognise a wrapper.
os.environ.setdefault("MATURIN_NO_MISSING_BUILD_BACKEND_WARNING", "1")

DATA = Path("lockstep._lockstep.data")
"""Folder in which maturin looks for a wheel's data: next to pyproject.toml, named after the extension module."""


def build_wheel(
    wheel_directory: str, config_settings: Mapping[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Builds the wheel; returns its name."""
    with _command_as_data():
        return str(maturin.build_wheel(wheel_directory, config_settings, metadata_directory))


def build_editable(
    wheel_directory: str, config_settings: Mapping[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Builds the wheel of an editable install; returns its name. The wheel contains a copy of the command."""
    with _command_as_data():
        return str(maturin.build_editable(wheel_directory, config_settings, metadata_directory))


@contextlib.contextmanager
def _command_as_data() -> Iterator[None]:
    """Keeps the stripped command in the wheel's data folder while the block runs."""
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
    """Builds the command; returns its path. Cargo reports progress on standard error."""
    words = ["build", "--release", "--package", "lockstep-cli", "--message-format", "json-render-diagnostics"]
    # The same features as in the Makefile, so that Cargo does not rebuild.
    if features := os.environ.get("LOCKSTEP_FEATURES"):
        words += ["--features", features]
    cargo = os.environ.get("CARGO", "cargo")
    try:
        built = subprocess.run([cargo, *words], check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
    except OSError as error:
        raise SystemExit(f"cannot run {cargo}: {error}; install Rust, https://rustup.rs") from error
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"cannot build the lockstep command: cargo ended with status {error.returncode}") from error
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == "lockstep":
            return Path(message["executable"])
    raise SystemExit("cannot find the lockstep command in the output of cargo")
