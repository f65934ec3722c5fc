"""Hooks of the documentation site (mkdocs.yml): pages that are generated, and links to files outside of `docs`.

- `reference/cli.md` has `--help-all` of every command, from the command named by LOCKSTEP (target/release/lockstep).
- A link to a file of the repository leads to a page with its text. So the site works offline.
"""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
LANGUAGES = {".rs": "rust", ".py": "python", ".c": "c", ".cpp": "cpp", ".h": "c", ".toml": "toml", ".sh": "sh"}


def source_page(path: Path) -> str:
    """Address of the page that shows a file of the repository."""
    return f"source/{path.relative_to(ROOT)}.md"


def outside(page: Path, target: str) -> Path | None:
    """The file of the repository that a link of a page leads to, if it is not below `docs`."""
    if re.match(r"[a-z]+:", target):
        return None
    path = (page.parent / target).resolve()
    return path if path.is_relative_to(ROOT) and not path.is_relative_to(DOCS) and path.exists() else None


def command_reference() -> str:
    """`--help-all` of every command, in the order of `lockstep --help`."""
    command = os.environ.get("LOCKSTEP", str(ROOT / "target/release/lockstep"))

    def printed(*words: str) -> str:
        environment = {**os.environ, "COLUMNS": "100"}
        made = subprocess.run([command, *words], capture_output=True, text=True, check=True, env=environment)
        return made.stdout

    overview = printed("--help")
    names = re.findall(r"^  ([a-z]+) {2,}\S", overview.split("\nOptions:")[0], re.MULTILINE)
    parts = ["# Command line\n\nGenerated from the command. `lockstep COMMAND --help` prints the usual options.\n"]
    parts.append(f"```text\n{overview}```\n")
    for name in names:
        option = "--help-all" if "--help-all" in printed(name, "--help") else "--help"
        parts.append(f"## lockstep {name}\n\n```text\n{printed(name, option)}```\n")
    return "\n".join(parts)


def session_log() -> str:
    """The columns of session logs, from their schema."""
    schema = json.loads((ROOT / "python/lockstep/sessions/schema.json").read_text(encoding="utf-8"))
    parts = []
    for table in ("sessions", "seconds"):
        rows = [
            f"| `{column['name']}` | {column['type']} | {column.get('unit', '')} | {column['meaning']} |"
            for column in schema[table]
        ]
        parts.append("\n".join([f"### {table}\n", "| column | type | unit | meaning |", "|---|---|---|---|", *rows]))
    return "\n\n".join(parts)


def on_files(files: Files, config: Any) -> Files:
    """Adds generated pages."""
    files.append(File.generated(config, "reference/cli.md", content=command_reference()))
    linked: set[Path] = set()
    for page in DOCS.rglob("*.md"):
        for match in LINK.finditer(page.read_text(encoding="utf-8")):
            path = outside(page, match[2])
            if path is not None and path.is_file():
                linked.add(path)
    for path in sorted(linked):
        text = path.read_text(encoding="utf-8")
        if path.suffix != ".md":
            text = f"# {path.relative_to(ROOT)}\n\n~~~~{LANGUAGES.get(path.suffix, 'text')}\n{text}\n~~~~\n"
        files.append(File.generated(config, source_page(path), content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Leads links to files of the repository to their pages."""
    uri = page.file.src_uri
    markdown = markdown.replace("<!-- generated: session-log -->", session_log())
    if uri.startswith("source/"):
        # Links inside a shown page of the repository, such as ARCHITECTURE.md, start at the repository.
        here = ROOT / uri.removeprefix("source/").removesuffix(".md")
    else:
        here = DOCS / uri

    def lead(match: re.Match[str]) -> str:
        if re.match(r"[a-z]+:", match[2]):
            return match[0]
        path = (here.parent / match[2]).resolve()
        if path.is_relative_to(DOCS) and path.exists():
            target = str(path.relative_to(DOCS))
        elif path.is_relative_to(ROOT) and path.is_file():
            target = source_page(path)
        else:
            return match[0] if not uri.startswith("source/") else f"{match[1]}#{match[3].lstrip('#')}"
        return f"{match[1]}{os.path.relpath(target, str(Path(uri).parent))}{match[3]}"

    return LINK.sub(lead, markdown)
