import importlib.util
import os
import re
import tarfile
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CRATES = sorted(path.parent for path in (ROOT / "crates").glob("*/Cargo.toml"))


def manifest(path: Path) -> dict[str, Any]:
    return tomllib.loads((path / "Cargo.toml").read_text(encoding="utf-8"))


VERSION = manifest(ROOT)["workspace"]["package"]["version"]


def test_internal_dependencies_name_the_workspace_version() -> None:
    internal = {
        name: dependency
        for name, dependency in manifest(ROOT)["workspace"]["dependencies"].items()
        if isinstance(dependency, dict) and "path" in dependency
    }
    assert len(internal) > 20
    assert {name: dependency.get("version") for name, dependency in internal.items()} == dict.fromkeys(
        internal, VERSION
    )


def test_shipped_packages_outside_the_workspace_agree() -> None:
    assert manifest(ROOT / "gstreamer")["package"]["version"] == VERSION
    assert re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.M)[1] == VERSION  # type: ignore[index]
    first = re.search(r"^## \[(\d\S+)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert first is not None
    assert first[1] == VERSION


def test_python_package_takes_the_version_of_the_extension() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "version" not in project
    assert "version" in project["dynamic"]


OUTSIDE = [path.parent for path in (ROOT / "peers").glob("*/Cargo.toml") if "../../crates" in path.read_text()]


@pytest.mark.parametrize("folder", [ROOT, ROOT / "fuzz", ROOT / "gstreamer", *OUTSIDE])
def test_lock_files_have_the_workspace_version(folder: Path) -> None:
    locked = tomllib.loads((folder / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    names = {manifest(crate)["package"]["name"] for crate in CRATES}
    versions = {package["name"]: package["version"] for package in locked if package["name"] in names}
    assert versions
    assert set(versions.values()) == {VERSION}


@pytest.mark.parametrize("crate", CRATES, ids=lambda crate: crate.name)
def test_crate_has_the_metadata_of_a_package(crate: Path) -> None:
    package = manifest(crate)["package"]
    assert package["description"]
    inherited = ["version", "rust-version", "license", "readme", "keywords", "categories", "exclude"]
    assert [field for field in inherited if package.get(field) != {"workspace": True}] == []


@pytest.mark.parametrize("crate", CRATES, ids=lambda crate: crate.name)
def test_crate_embeds_only_files_of_its_own(crate: Path) -> None:
    outside = []
    for source in (crate / "src").rglob("*.rs"):
        if source.name == "tests.rs":
            continue
        shipped = re.split(r"#\[cfg\((?:doc)?test\)\]", source.read_text(encoding="utf-8"))[0]
        embedded = re.findall(r'include_(?:str|bytes)!\(\s*"([^"]+)"', shipped)
        paths = [source.parent / name for name in embedded]
        below = re.findall(r'include_(?:str|bytes)!\(concat!\(env!\("CARGO_MANIFEST_DIR"\), "/([^"]*)"', shipped)
        paths += [crate / name for name in below]
        outside += [path for path in paths if not Path(os.path.normpath(path)).is_relative_to(crate)]
    assert outside == []


def test_only_files_of_the_python_package_are_links() -> None:
    links = {path.name: path.resolve() for path in (ROOT / "crates").rglob("*") if path.is_symlink()}
    assert [name for name, path in links.items() if not path.is_relative_to(ROOT / "python" / "lockstep")] == []


def release_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_archives_of_equal_files_are_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = release_script()
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o700)
    packed = []
    for time, name in ((1, "first"), (2, "second")):
        os.utime(program, (time, time))
        (tmp_path / name).mkdir()
        monkeypatch.setattr(release, "OUT", tmp_path / name)
        release.archive("lockstep-1", {"bin/lockstep": program, "LICENSE-MIT": ROOT / "LICENSE-MIT"})
        packed.append((tmp_path / name / "lockstep-1.tar.gz").read_bytes())
    assert packed[0] == packed[1]
    with tarfile.open(tmp_path / "first" / "lockstep-1.tar.gz") as tar:
        assert {member.name: member.mode for member in tar} == {
            "lockstep-1/LICENSE-MIT": 0o644,
            "lockstep-1/bin/lockstep": 0o755,
        }


def test_release_refuses_a_second_wheel(tmp_path: Path) -> None:
    release = release_script()
    for name in ("a-1.whl", "a-2.whl"):
        (tmp_path / name).touch()
    with pytest.raises(SystemExit, match="2 files match, expected one"):
        release.only(tmp_path, "a-*.whl")
