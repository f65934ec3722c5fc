import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import lockstep
from lockstep.distribution import DISTRIBUTION

ROOT = Path(__file__).parents[2]

sys.path.insert(0, str(ROOT / "python" / "backend"))

maturin = pytest.importorskip("maturin", reason="the build backend needs maturin")
backend = pytest.importorskip("lockstep_backend")


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_distribution_has_a_name_of_its_own_wherever_it_is_named() -> None:
    assert project()["project"]["name"] == DISTRIBUTION == "lockstep-video"
    documents = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md", ROOT / "Makefile"]
    sources = [*(ROOT / "python" / "lockstep").rglob("*.py"), *(ROOT / "crates").rglob("*.rs")]
    strangers = re.compile(r"(pip|uv tool|uv|pipx) (install|add) [^\n]*\blockstep(?![-_]video|[-_/.]\w)")
    for path in [*documents, *sources]:
        found = strangers.search(path.read_text(encoding="utf-8"))
        assert found is None, f"{path}: {found.group() if found else ''}: that is somebody else's package"


def test_no_address_is_given_that_does_not_exist() -> None:
    for path in [ROOT / "pyproject.toml", ROOT / "Cargo.toml", *(ROOT / "crates").glob("*/Cargo.toml")]:
        text = path.read_text(encoding="utf-8")
        assert "github.com" not in text, path
        assert not re.search(r"^(repository|homepage)\b", text, re.MULTILINE), path


def test_reports_and_plots_do_without_the_extension() -> None:
    program = (
        "import sys\n"
        "sys.modules['lockstep._lockstep'] = None\n"
        "import lockstep, lockstep.report, lockstep.bench_report, lockstep.sweep_plot, lockstep.sweep_ray\n"
        "print(lockstep.__version__)\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603
    assert (said.returncode, said.stdout.strip()) == (0, lockstep.__version__), said.stderr


def test_what_the_package_offers_is_listed_and_nothing_else_is_there() -> None:
    assert set(lockstep.__all__) <= set(dir(lockstep))
    assert all(getattr(lockstep, name) is not None for name in lockstep.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        _ = lockstep.nosuch  # type: ignore[attr-defined]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to build in, with a Cargo that says that it built the command."""
    (tmp_path / "built").mkdir()
    program = tmp_path / "built" / "lockstep"
    program.write_text("#!/bin/sh\necho lockstep\n")
    program.chmod(0o755)
    message = f'{{"reason":"compiler-artifact","target":{{"name":"lockstep"}},"executable":"{program}"}}'
    cargo = tmp_path / "cargo"
    cargo.write_text(f'#!/bin/sh\necho "$@" > asked\necho \'{{"reason":"x"}}\'\necho \'{message}\'\n')
    cargo.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CARGO", str(cargo))
    monkeypatch.setattr(backend.shutil, "which", lambda _: None)
    return tmp_path


@pytest.mark.skipif(os.name != "posix", reason="the stand-in for Cargo is a shell script")
@pytest.mark.parametrize("kind", ["build_wheel", "build_editable"])
def test_the_wheel_carries_the_command(checkout: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    packed = {}

    def pack(folder: str, settings: object, metadata: object) -> str:
        assert (folder, settings, metadata) == ("out", None, None)
        for path in (checkout / "lockstep._lockstep.data").rglob("*"):
            packed[str(path.relative_to(checkout))] = os.access(path, os.X_OK)
        return "lockstep_video.whl"

    monkeypatch.setattr(maturin, kind, pack)
    stale = checkout / "lockstep._lockstep.data" / "scripts" / "left-over"
    stale.parent.mkdir(parents=True)
    stale.write_text("of a build that was ended")
    assert getattr(backend, kind)("out") == "lockstep_video.whl"
    assert packed == {"lockstep._lockstep.data/scripts": True, "lockstep._lockstep.data/scripts/lockstep": True}
    assert not (checkout / "lockstep._lockstep.data").exists()
    assert "--release --package lockstep-cli" in (checkout / "asked").read_text()


@pytest.mark.skipif(os.name != "posix", reason="the stand-in for Cargo is a shell script")
def test_a_command_that_cannot_be_built_is_no_reason_for_a_wheel_without_it(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maturin, "build_wheel", lambda *_: pytest.fail("it was built all the same"))
    for script, said in (("exit 101", "cargo ended with 101"), ("echo '{}'", "cargo built no lockstep command")):
        (checkout / "cargo").write_text(f"#!/bin/sh\n{script}\n")
        with pytest.raises(SystemExit, match=said):
            backend.build_wheel("out")
    monkeypatch.setenv("CARGO", str(checkout / "nosuch"))
    with pytest.raises(SystemExit, match="built with Rust"):
        backend.build_wheel("out")
    assert not (checkout / "lockstep._lockstep.data").exists()
