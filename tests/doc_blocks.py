"""The blocks of code in README and docs, and what each line of a shell block is checked by."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LANGUAGES = {"python", "sh", "toml", "yaml", "json", "text", "nginx"}

_FENCE = re.compile(r"^( *)```(\w*)\s*$")
_MARK = re.compile(r"^<!-- not run: (.+) -->$")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Args:
        page: The file.
        line: Of its first line of code.
        language: As the fence says; empty where it says none.
        text: The code.
        skip: Why it is not run, from the HTML comment before it; None where it is run.
    """

    page: Path
    line: int
    language: str
    text: str
    skip: str | None

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """All of a page, in order. A fence may be indented, as within a list."""
    found: list[Block] = []
    opened: tuple[int, str, str, str | None] | None = None
    code: list[str] = []
    before = ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if opened is None and fence:
            mark = _MARK.match(before.strip())
            opened, code = (number + 1, fence[1], fence[2], mark[1] if mark else None), []
        elif opened is not None and fence and fence[1] == opened[1] and not fence[2]:
            at, indent, language, skip = opened
            text = "\n".join(line.removeprefix(indent) for line in code)
            found.append(Block(page, at, language, text, skip))
            opened, before = None, ""
        elif opened is not None:
            code.append(line)
        if opened is None and line.strip():
            before = line
    assert opened is None, f"{page}: a fence is not closed"
    return found


def commands(block: Block) -> list[tuple[dict[str, str], list[str]]]:
    """The lines of a shell block: variables set for a line (or by `export`), and the words of the command."""
    found = []
    for line in block.text.splitlines():
        words = shlex.split(line, comments=True)
        exported = words[:1] == ["export"]
        words = words[1:] if exported else words
        variables = {}
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            name, _, variables[name] = words.pop(0).partition("=")
        if words or variables:
            found.append((variables, words))
    return found


def check(words: list[str]) -> None:
    """A command that is not `rlwatch`: what it names is there. AssertionError where nothing can be said about it."""
    first, *rest = words
    if first in ("python", "bash"):
        script, *options = rest
        text = (ROOT / script).read_text(encoding="utf-8")
        if script.endswith(".sh"):  # hands its options on
            text += (ROOT / script).with_name("grpo_trl.py").read_text(encoding="utf-8")
        for option in options:
            assert not option.startswith("--") or option in text, f"{script} has no {option}"
    elif words[:2] == ["pip", "install"]:
        project = _project()
        for wanted in rest[1:]:
            name, _, extras = wanted.rstrip("]").partition("[")
            assert name == project["name"], f"{name} is not the distribution's name"
            known: Mapping[str, object] = project["optional-dependencies"]
            assert not extras or set(extras.split(",")) <= known.keys(), wanted
    elif first == "make":
        targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert rest[0] in targets, f"there is no target {rest[0]}"
    else:
        raise AssertionError(f"nothing checks {first!r}: say <!-- not run: why --> before the block")


def _project() -> dict[str, dict[str, object]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert isinstance(project, dict)
    return project
