import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import lockstep
from lockstep import command, distribution
from lockstep.distribution import DISTRIBUTION, install_command, requirements

ROOT = Path(__file__).parents[2]

sys.path.insert(0, str(ROOT / "python" / "backend"))

maturin = pytest.importorskip("maturin", reason="the build backend requires maturin")
backend = pytest.importorskip("lockstep_backend")


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_distribution_has_its_own_name_everywhere() -> None:
    assert project()["project"]["name"] == DISTRIBUTION == "lockstep-video"
    documents = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md", ROOT / "Makefile"]
    sources = [*(ROOT / "python" / "lockstep").rglob("*.py"), *(ROOT / "crates").rglob("*.rs")]
    strangers = re.compile(r"(pip|uv tool|uv|pipx) (install|add) [^\n]*\blockstep(?![-_]video|[-_/.]\w)")
    for path in [*documents, *sources]:
        found = strangers.search(path.read_text(encoding="utf-8"))
        assert found is None, f"{path}: {found.group() if found else ''}: this is another package"


def test_no_page_installs_the_package_from_an_index() -> None:
    folders = [ROOT / "python" / "lockstep", ROOT / "crates", ROOT / "docs"]
    paths = [path for folder in folders for kind in ("*.py", "*.rs", "*.md") for path in folder.rglob(kind)]
    for path in [ROOT / "README.md", ROOT / "Makefile", *paths]:
        found = re.search(r"""\binstall (--?\S+ )*["']?lockstep-video\b[^\n]*""", path.read_text(encoding="utf-8"))
        assert found is None, f"{path}: {found.group() if found else ''}: no index has it"


def test_requirements_of_an_extra_are_those_of_pyproject(monkeypatch: pytest.MonkeyPatch) -> None:
    def names(listed: list[str]) -> list[str]:
        return sorted(re.split(r"[^\w-]", requirement)[0] for requirement in listed)

    extras = project()["project"]["optional-dependencies"]
    assert names(requirements("gym")) == ["gymnasium", "msgspec"] == names(extras["gym"])
    learn = [*extras["lab"], *(one for one in extras["learn"] if one != f"{DISTRIBUTION}[lab]")]
    assert names(requirements("learn")) == names(learn)
    assert names(requirements()) == names(project()["project"]["dependencies"])

    def absent(_name: str) -> None:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "requires", absent)
    assert requirements("learn") == learn
    assert requirements() == project()["project"]["dependencies"]


def test_extras_are_installed_by_the_pip_of_this_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distribution, "requirements", lambda _: ["duckdb>=1.4,<3"])
    monkeypatch.setattr(distribution, "find_spec", lambda _: object())
    monkeypatch.setattr(sys, "prefix", "/nowhere")
    assert install_command("sessions") == f"{sys.executable} -m pip install 'duckdb>=1.4,<3'"


def test_extras_are_installed_by_uv_without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distribution, "requirements", lambda _: ["duckdb>=1.4,<3"])
    monkeypatch.setattr(distribution, "find_spec", lambda _: None)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: "/bin/uv")
    monkeypatch.setattr(sys, "prefix", "/nowhere")
    assert install_command("sessions") == f"/bin/uv pip install --python {sys.executable} 'duckdb>=1.4,<3'"


def test_uv_tool_keeps_earlier_additions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / "out" / "wheel" / "lockstep_video-0.1.0-cp311-abi3-linux_x86_64.whl"
    (tmp_path / "uv-receipt.toml").write_text(
        "[tool]\nrequirements = [\n"
        f'{{ name = "lockstep-video", extras = ["gym"], path = "{wheel}" }},\n'
        '{ name = "aiortc", specifier = ">=1.14,<2" },\n]\n'
    )
    monkeypatch.setattr(distribution, "requirements", lambda _: ["duckdb>=1.4,<3"])
    monkeypatch.setattr(shutil, "which", lambda *_, **__: "uv")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    wanted = f"uv tool install --force --with 'duckdb>=1.4,<3' --with 'aiortc>=1.14,<2' '{wheel}[gym]'"
    assert install_command("sessions") == wanted


def test_command_next_to_interpreter_is_found_off_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "bin" / "lockstep"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.delenv("LOCKSTEP_COMMAND", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(command, "__file__", str(tmp_path / "lib" / "lockstep" / "command.py"))
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(script.parent))
    assert command.lockstep_command() == str(script)


def test_project_urls_are_valid() -> None:
    for path in [ROOT / "pyproject.toml", ROOT / "Cargo.toml", *(ROOT / "crates").glob("*/Cargo.toml")]:
        text = path.read_text(encoding="utf-8")
        assert "github.com" not in text, path
        assert not re.search(r"^(repository|homepage)\b", text, re.MULTILINE), path


@pytest.mark.slow
def test_reports_and_plots_work_without_the_extension() -> None:
    program = (
        "import sys\n"
        "sys.modules['lockstep._lockstep'] = None\n"
        "import lockstep, lockstep.report, lockstep.bench_report, lockstep.sweep_plot, lockstep.sweep_ray\n"
        "print(lockstep.__version__)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603
    assert (ran.returncode, ran.stdout.strip()) == (0, lockstep.__version__), ran.stderr


def test_package_has_only_its_listed_names() -> None:
    assert set(lockstep.__all__) <= set(dir(lockstep))
    assert all(getattr(lockstep, name) is not None for name in lockstep.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        _ = lockstep.nosuch  # type: ignore[attr-defined]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to build in, with a fake Cargo that reports a built command."""
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
def test_wheel_contains_the_command(checkout: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    packed = {}

    def pack(folder: str, settings: object, metadata: object) -> str:
        assert (folder, settings, metadata) == ("out", None, None)
        for path in (checkout / "lockstep._lockstep.data").rglob("*"):
            packed[str(path.relative_to(checkout))] = os.access(path, os.X_OK)
        return "lockstep_video.whl"

    monkeypatch.setattr(maturin, kind, pack)
    stale = checkout / "lockstep._lockstep.data" / "scripts" / "left-over"
    stale.parent.mkdir(parents=True)
    stale.write_text("of an interrupted build")
    assert getattr(backend, kind)("out") == "lockstep_video.whl"
    assert packed == {"lockstep._lockstep.data/scripts": True, "lockstep._lockstep.data/scripts/lockstep": True}
    assert not (checkout / "lockstep._lockstep.data").exists()
    assert "--release --package lockstep-cli" in (checkout / "asked").read_text()


@pytest.mark.skipif(os.name != "posix", reason="the stand-in for Cargo is a shell script")
def test_no_wheel_is_built_without_the_command(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maturin, "build_wheel", lambda *_: pytest.fail("the wheel was built"))
    for script, ran in (("exit 101", "cargo ended with status 101"), ("echo '{}'", "cannot find the lockstep command")):
        (checkout / "cargo").write_text(f"#!/bin/sh\n{script}\n")
        with pytest.raises(SystemExit, match=ran):
            backend.build_wheel("out")
    monkeypatch.setenv("CARGO", str(checkout / "nosuch"))
    with pytest.raises(SystemExit, match="install Rust"):
        backend.build_wheel("out")
    assert not (checkout / "lockstep._lockstep.data").exists()


LAB = ("altair", "jinja2", "msgspec", "polars", "vl_convert")


def without(modules: tuple[str, ...], program: str) -> subprocess.CompletedProcess[str]:
    """Runs a program as if the modules were not installed."""
    hidden = f"import sys\nsys.modules.update(dict.fromkeys({modules!r}))\n{program}"
    return subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False)  # noqa: S603


def test_package_without_extras_requires_numpy() -> None:
    names = [re.split(r"[^\w-]", requirement)[0] for requirement in project()["project"]["dependencies"]]
    assert names == ["numpy"]


def test_extra_includes_requirements_of_included_extras() -> None:
    lab = project()["project"]["optional-dependencies"]["lab"]
    assert set(lab) < set(distribution.requirements("learn"))
    assert not any(DISTRIBUTION in requirement for requirement in distribution.requirements("learn"))


def test_calls_run_without_the_extra_lab() -> None:
    pytest.importorskip("lockstep._lockstep")
    program = (
        "import lockstep\n"
        "call = lockstep.simulate('constant:1mbps', modelled=True, seconds=1)\n"
        "print(len(call.frames) > 0, call.series['received_bps'].shape)\n"
        "lockstep.Call.listen('127.0.0.1:0').leave()\n"
    )
    ran = without((*LAB, "gymnasium", "torch"), program)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("True (")


@pytest.mark.parametrize(
    ("use", "feature"),
    [
        ("call.frames.to_polars()", "Table.to_polars"),
        ("call.report", "`report`"),
        ("lockstep.Controller", "lockstep.Controller"),
        ("lockstep.Call.listen('127.0.0.1:0', controller=print)", "`controller`"),
        ("lockstep.simulate('constant:1mbps', modelled=True, seconds=1, session_log='log')", "`session_log`"),
    ],
)
def test_missing_extra_lab_is_named(use: str, feature: str) -> None:
    pytest.importorskip("lockstep._lockstep")
    ran = without(
        LAB, f"import lockstep\ncall = lockstep.simulate('constant:1mbps', modelled=True, seconds=1)\n{use}\n"
    )
    error = ran.stderr.splitlines()[-1]
    assert error.startswith(f"ModuleNotFoundError: {feature} requires "), ran.stderr
    assert f"of the extra `lab`; install it with: {sys.executable} -m pip install 'altair" in error


def test_scripts_name_their_missing_extra() -> None:
    scripts = project()["project"]["scripts"]
    for name, target in scripts.items():
        module, _, entry = target.partition(":")
        extra = "gym" if name == "lockstep-bench-gym" else "lab"
        if module != "lockstep.scripts":
            continue
        ran = without((*LAB, "gymnasium"), f"from {module} import {entry}\nsys.exit({entry}())")
        assert ran.returncode == 1, name
        assert ran.stderr.startswith(f"{name}: "), ran.stderr
        assert f", of the extra `{extra}`, is missing; install it with: " in ran.stderr


def test_import_loads_neither_numpy_nor_the_extension() -> None:
    program = "import lockstep, sys\nprint([name for name in ('numpy', 'lockstep._lockstep') if name in sys.modules])"
    assert without((), program).stdout.strip() == "[]"
