"""Commands and examples of README, tutorials and two how-to pages run as printed; links of all pages lead somewhere."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMAND = ROOT / "target" / "release" / "lockstep"
HOW_TO = [ROOT / "docs" / "how-to" / f"{name}.md" for name in ("continuous-integration", "leaderboard")]
RUN = [ROOT / "README.md", *sorted((ROOT / "docs" / "tutorials").glob("*.md")), *HOW_TO]
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
# `sh` and `python` run, in order, in one folder; `console` needs a person, a device or hours; Rust runs as doc tests of
# `crates/cli`.
FENCE = re.compile(r"^```(\w[\w,]*)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LANGUAGES = {"sh", "python", "console", "rust", "rust,no_run", "toml", "text", "json", "c", "yaml"}
GENERATED = {"reference/cli.md"}


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(match[1] or "", match[2]) for match in FENCE.finditer(page.read_text(encoding="utf-8"))]


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_commands_of_a_page_run_as_printed(page: Path, tmp_path: Path) -> None:
    if not COMMAND.exists():
        pytest.skip("requires `make build`")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "lockstep").symlink_to(COMMAND)
    for name, module in (("lockstep-report", "report"), ("lockstep-sweep-plot", "sweep_plot")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lockstep.{module} "$@"\n')
        (programs / name).chmod(0o755)
    # A link to the interpreter of an environment would not find its packages.
    (programs / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (programs / "python3").chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "python"),
        "LOCKSTEP_PYTHON": sys.executable,
    }
    folder = tmp_path / "page"
    folder.mkdir()
    session = ""
    for language, text in blocks(page):
        if language == "sh":
            command = [shutil.which("bash") or "sh", "-euc", text]
        elif language == "python":
            session += text  # later examples of a page use names of earlier ones
            command = [sys.executable, "-c", session]
        else:
            continue
        made = subprocess.run(  # noqa: S603
            command, cwd=folder, env=environment, check=False, capture_output=True, text=True, timeout=300
        )
        assert made.returncode == 0, f"{page.name}:\n{text}\n{made.stdout[-2000:]}\n{made.stderr[-2000:]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_a_page_names_its_language(page: Path) -> None:
    if "docs/lab" in str(page):
        pytest.skip("nobody has to read it")
    assert {language for language, _ in blocks(page)} <= LANGUAGES


def anchors(page: Path) -> set[str]:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    bare = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in bare}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text(encoding="utf-8")))
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if str(file).removeprefix(f"{ROOT}/docs/") in GENERATED:
            continue
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []
