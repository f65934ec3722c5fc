"""Programs under test that are built from a folder in `peers` of a checkout, at their first use.

They are outside the workspace, so that nothing that ships depends on them. An environment variable names a file that
was built elsewhere.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lockstep.testbed.chromium import bits_per_second
from lockstep.testbed.processes import apart, pause
from lockstep.testbed.programs import Setting, TestbedError

ROOT = Path(__file__).parents[3]
SOURCES = ("Cargo.toml", "Cargo.lock", "src/*.rs", "go.mod", "go.sum", "*.go")
TOOLS = {
    "cargo": "https://rustup.rs",
    "go": "https://go.dev/dl",
    "cc": "Debian, Ubuntu: apt install gcc",
    "pkg-config": "Debian, Ubuntu: apt install pkg-config",
}
"""Where to get the commands that build peers."""
GO = "/usr/local/go/bin"
"""Go's own place on Unix, which may not be in PATH."""


def built_path(name: str) -> Path:
    """The path of a built file."""
    return ROOT / "target" / "peers" / "release" / name


def cargo_command(folder: Path, *also: str) -> tuple[str, ...]:
    """The command that builds a package with Cargo."""
    words = ("--release", "--locked", "--manifest-path", str(folder / "Cargo.toml"))
    return ("cargo", "build", *words, "--target-dir", str(ROOT / "target" / "peers"), *also)


@dataclass(frozen=True, slots=True)
class Peer:
    """A file that is built at its first use: a program, or a plugin."""

    name: str
    """Its name in messages."""
    variable: str
    """The environment variable that names a built one."""
    folder: Path
    """Its sources."""
    built: Path
    """The file that the command makes."""
    command: tuple[str, ...]
    """The command that builds it, without a shell."""
    tools: tuple[str, ...]
    """Commands that the build requires, from `TOOLS`."""
    libraries: Mapping[str, str] = field(default_factory=dict)
    """Libraries that the build requires, by their names for pkg-config, with their Debian packages."""

    def found(self) -> Path | None:
        """The built file, if it exists and is not older than its sources."""
        if named := os.environ.get(self.variable):
            return Path(named) if Path(named).exists() else None
        if not self.built.exists():
            return None
        sources = [source for pattern in SOURCES for source in self.folder.glob(pattern)]
        newest = max((source.stat().st_mtime for source in sources), default=0.0)
        return self.built if self.built.stat().st_mtime >= newest else None

    def missing(self) -> str | None:
        """What is missing to use it; None if it is built or can be built."""
        if self.found() is not None:
            return None
        if named := os.environ.get(self.variable):
            return f"{self.variable}: no such file {named}"
        if not self.folder.exists():
            place = f"peers/{self.folder.name}"
            return f"{self.name} requires a checkout of Lockstep ({place}), or {self.variable} set to a built one"
        for tool in self.tools:
            if _tool(tool) is None:
                return f"{tool}, which builds {self.name}, is not installed ({TOOLS[tool]})"
        for library, package in self.libraries.items():
            asked = ["pkg-config", "--exists", library]
            if subprocess.run(asked, check=False, capture_output=True).returncode != 0:  # noqa: S603
                return f"{self.name} requires the library {library} (Debian, Ubuntu: apt install {package})"
        return None

    def build(self) -> Path:
        """The built file, after a build if needed.

        Raises:
            TestbedError: If something is missing or the build fails; the message has the reason.

        """
        if (found := self.found()) is not None:
            return found
        if lacking := self.missing():
            raise TestbedError(lacking)
        print(f"building {self.name} (once, takes minutes): {self.built}", file=sys.stderr)
        command = [_tool(self.command[0]) or self.command[0], *self.command[1:]]
        self.built.parent.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.TemporaryFile("w+") as errors,
            subprocess.Popen(  # noqa: S603
                command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=errors, **apart()
            ) as making,
        ):
            try:
                while making.poll() is None:
                    pause(0.2)
            except KeyboardInterrupt:
                making.terminate()
                raise
            errors.seek(0)
            if making.returncode != 0 or not self.built.exists():
                raise TestbedError(f"cannot build {self.name}: {_reason(errors.read())}")
        # The command may keep a file whose sources have only newer times, as after a checkout.
        self.built.touch()
        return self.built


def ends(program: Path, options: Mapping[str, int]) -> Callable[[str, Setting], list[str]]:
    """The commands of the ends of `TwoEnds` for such a program: its role, a folder, the clip, an address, options."""
    encoded = json.dumps(dict(options))

    def command(role: str, setting: Setting) -> list[str]:
        side = setting.sender if role == "sender" else setting.receiver
        return [str(program), role, str(setting.work), str(setting.clip.path), side.address, encoded]

    return command


def rates_of_estimate(options: Mapping[str, str]) -> dict[str, int]:
    """The options `start` and `cap` of a bandwidth estimate in bit/s: its first value and its maximum.

    Raises:
        TestbedError: If one is not a bit rate, or the start is above the maximum.

    """
    rates = {name: bits_per_second(options[name]) for name in ("start", "cap")}
    if rates["start"] > rates["cap"]:
        raise TestbedError(f"start={options['start']} is above cap={options['cap']}")
    return rates


def locked_version(package: str, lock: Path) -> str:
    """The version of a package in a lock file of Cargo; empty without one."""
    try:
        lines = lock.read_text().splitlines()
        return lines[lines.index(f'name = "{package}"') + 1].split('"')[1]
    except (OSError, ValueError, IndexError):
        return ""


def _tool(name: str) -> str | None:
    return shutil.which(name) or (shutil.which(name, path=GO) if name == "go" else None)


def _reason(messages: str) -> str:
    """The first error of Cargo, or the last line of another command."""
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    wrong = [line for line in lines if line.startswith("error")]
    return (wrong or lines[-1:] or ["no message"])[0]
