#!/usr/bin/env python3
"""Checks comments, docstrings, strings and pages against the house style: words, sentence lengths, test names.

    .ci/language.py                     # every tracked file; fails if anything is found
    .ci/language.py crates/vp8 docs     # these files and folders
    .ci/language.py --count             # findings per folder

A finding is one line: file, line, rule, text. `.ci/language.txt` holds the words, one regular expression per line, a tab
and what to write instead. Its lines with `name:` match names of functions, types, constants, modules and macros.
Sentences of comments and docstrings have at most 20 words, those of pages at most 25. Code spans, links, tables, figures
and quotations count as one word or none.
"""

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
WORDS = [
    (re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])", re.IGNORECASE), better)
    for pattern, better in (
        line.split("\t")
        for line in (ROOT / ".ci/language.txt").read_text().splitlines()
        if line and line[0] != "#" and not line.startswith("name:")
    )
]
# Patterns of declared names, whole.
NAMES = [
    (re.compile(pattern), better)
    for pattern, better in (
        line.removeprefix("name:").split("\t")
        for line in (ROOT / ".ci/language.txt").read_text().splitlines()
        if line.startswith("name:")
    )
]
DECLARED = re.compile(
    r"^[ \t]*(?:pub(?:\([a-z:() ]+\))? )?(?:unsafe |const |async )*"
    r"(?:fn|struct|enum|trait|const|static|type|mod|macro_rules!|def|class) (\w+)",
    re.MULTILINE,
)
COMMENT_LIMIT, PAGE_LIMIT, NAME_LIMIT = 20, 25, 60
# A sentence ends at a full stop, question mark, colon or semicolon before a space; an abbreviation does not end it.
END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<!\bcf)(?<!\bet al)(?<!\betc)(?<!\bFig)(?<!\bSec)[.?!:;](?=\s|$)")
RUST = re.compile(
    r"""(?P<raw>br?\#*"|r\#*"|b?")|(?P<char>'(?:\\.[^']*|[^\\'])')|(?P<line>//[^\n]*)|(?P<block>/\*)""", re.VERBOSE
)


class Prose:
    """A stretch of text: where it begins, its kind (comment, string, page) and its lines."""

    def __init__(self, line: int, kind: str, text: str) -> None:
        self.line, self.kind, self.text = line, kind, text


def rust(source: str) -> Iterator[Prose]:
    """Comments and string literals of a Rust file."""
    at, line, comment = 0, 1, None
    while match := RUST.search(source, at):
        line += source.count("\n", at, match.start())
        start, first = match.start(), line
        alone = not source[source.rfind("\n", 0, start) + 1 : start].strip()
        if match["line"]:
            text = re.sub(r"^//[/!]?[ ]?", "", match["line"])
            mark = re.match(r"//[/!]?", match["line"])[0]
            if comment and alone and comment[0] == mark and comment[1] == first - 1:
                comment[2].text += "\n" + text
                comment = (mark, first, comment[2])
            else:
                if comment:
                    yield comment[2]
                comment = (mark, first, Prose(first, "comment", text))
            at = match.end()
            continue
        if comment:
            yield comment[2]
            comment = None
        if match["block"]:
            at = source.find("*/", match.end()) + 2 or len(source)
            yield Prose(first, "comment", source[match.end() : at - 2])
        elif match["raw"] and "r" in match["raw"]:
            close = '"' + "#" * match["raw"].count("#")
            at = source.find(close, match.end())
            at = len(source) if at < 0 else at + len(close)
            yield Prose(first, "string", source[match.end() : at - len(close)])
        elif match["raw"]:
            at = match.end()
            while at < len(source) and source[at] != '"':
                at += 2 if source[at] == "\\" else 1
            yield Prose(first, "string", re.sub(r"\\\n\s*", " ", source[match.end() : at]))
            at += 1
        else:
            at = match.end()
        line += source.count("\n", start, at)
    if comment:
        yield comment[2]


def python(source: str) -> Iterator[Prose]:
    """Comments, docstrings and string literals of a Python file."""
    documented = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                documented.add(first.value.lineno)
                yield Prose(first.value.lineno, "comment", str(first.value.value))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.lineno not in documented:
            yield Prose(node.lineno, "string", node.value)
    comment: Prose | None = None
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            text = token.string.lstrip("#!: ")
            alone = not token.line[: token.start[1]].strip()
            if comment and alone and last == token.start[0] - 1:
                comment.text += "\n" + text
            else:
                if comment:
                    yield comment
                comment = Prose(token.start[0], "comment", text)
            last = token.start[0]
    if comment:
        yield comment


def page(source: str) -> Iterator[Prose]:
    """Paragraphs of a Markdown page. Code, tables and front matter are no prose."""
    lines = source.splitlines()
    start, fenced = 0, False
    paragraph: list[str] = []
    for number, text in enumerate([*lines, ""], 1):
        if text.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
            text = ""
        heading = text.startswith("#")
        item = re.match(r"\s*([-*+]|\d+\.)\s", text)
        code = text.startswith(("    ", "<", "\t")) and not paragraph
        prose = bool(text.strip()) and not fenced and not code and not text.startswith("|")
        if paragraph and (not prose or heading or item):
            yield Prose(start, "page", "\n".join(paragraph))
            paragraph = []
        if prose:
            if not paragraph:
                start = number
            paragraph.append(re.sub(r"^\s*([-*+>]|\d+\.|#+)\s+", "", text))
            if heading:
                yield Prose(start, "page", paragraph.pop())


def sentences(prose: Prose) -> Iterator[tuple[int, str]]:
    """The sentences of a text with their lines. Paragraphs, items, headings and code blocks part sentences."""
    lines, fenced = [], False
    for text in prose.text.split("\n"):
        bare = text.strip()
        if bare.startswith("```"):
            fenced = not fenced
            text = ""
        elif fenced or text.startswith(("    ", "|")) or bare.startswith(("# ", "|", "[")) and "]:" in bare:
            text = ""
        lines.append(text)
    block: list[tuple[int, str]] = []
    for number, text in enumerate([*lines, ""]):
        item = re.match(r"\s*([-*+]|\d+\.)\s", text)
        if (not text.strip() or item) and block:
            yield from split(prose.line, block)
            block = []
        if text.strip():
            block.append((number, re.sub(r"^\s*([-*+]|\d+\.)\s+", "", text)))


def split(line: int, block: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    text = "\n".join(text for _, text in block)
    text = re.sub(r"`[^`]*`", lambda code: "`x`" + "\n" * code[0].count("\n"), text)
    text = re.sub(r"!?\[([^\]]*)\](\([^)]*\)|\[[^\]]*\])?", r"\1", text)
    at = 0
    for end in [*(match.end() for match in END.finditer(text)), len(text)]:
        sentence = text[at:end]
        if sentence.strip():
            lead = len(sentence) - len(sentence.lstrip())
            yield line + block[0][0] + text.count("\n", 0, at + lead), " ".join(sentence.split())
        at = end


def findings(path: Path) -> Iterator[str]:
    """What is against the rules in a file, a line each."""
    source = path.read_text()
    name = path.relative_to(ROOT)
    parts = {".rs": rust, ".py": python, ".pyi": python, ".md": page}[path.suffix](source)
    for prose in parts:
        if prose.kind == "string" and not re.search(r"\s", prose.text):
            continue  # a key, a column or a value of an option, and no sentence
        bare = re.sub(r"`[^`\n]*`", "`x`", prose.text) if prose.kind != "string" else prose.text
        for pattern, better in WORDS:
            for match in pattern.finditer(bare):
                line = prose.line + bare.count("\n", 0, match.start())
                yield f"{name}:{line}: word: {' '.join(match[0].split())!r}: {better}"
        if prose.kind == "string":
            continue
        limit = PAGE_LIMIT if prose.kind == "page" else COMMENT_LIMIT
        for line, sentence in sentences(prose):
            count = sum(1 for word in sentence.split() if re.search(r"\w", word))
            if count > limit:
                yield f"{name}:{line}: sentence: {count} words, at most {limit}: {sentence[:80]}"
    if path.suffix != ".md" and "tests" not in path.parts:
        for match in DECLARED.finditer(source):
            for pattern, better in NAMES:
                if pattern.fullmatch(match[1]):
                    line = source.count("\n", 0, match.start(1)) + 1
                    yield f"{name}:{line}: name: {match[1]!r}: {better}"
    tests = {".rs": r"#\[test\]\s+(?:#\[[^\]]*\]\s+)*fn (\w+)", ".py": r"\bdef (test_\w+)"}.get(path.suffix)
    for match in re.finditer(tests, source) if tests else ():
        if len(match[1].removeprefix("test_")) > NAME_LIMIT:
            line = source.count("\n", 0, match.start()) + 1
            yield f"{name}:{line}: test name: {len(match[1])} characters, at most {NAME_LIMIT}: {match[1]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("paths", nargs="*", help="files and folders below the repository's root")
    parser.add_argument("--count", action="store_true", help="number of findings per folder, for all files")
    arguments = parser.parse_args()
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    files = [name for name in listed if Path(name).suffix in {".rs", ".py", ".pyi", ".md"} and (ROOT / name).exists()]
    under = [str(Path(path)).rstrip("/") for path in arguments.paths]
    if under:
        files = [name for name in files if any(name == path or name.startswith(path + "/") for path in under)]
    found = [line for name in files for line in findings(ROOT / name)]
    if arguments.count:
        rules = Counter(("/".join(line.split(":")[0].split("/")[:2]), line.split(": ")[1]) for line in found)
        for (folder, rule), count in sorted(rules.items()):
            print(f"{count:6} {rule:10} {folder}")
        print(f"{len(found):6} in all")
        return 0
    print("\n".join(found))
    if found:
        print(f"{len(found)} findings: CONTRIBUTING.md says how we write", file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
