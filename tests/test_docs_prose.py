"""What README and docs say outside of their blocks: commands, options, arguments, files and counts that are there."""

from __future__ import annotations

import inspect
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from doc_blocks import PAGES, ROOT, blocks
from rlwatch.alerts.configured import VARIABLES
from rlwatch.audit.lints import LINTS
from rlwatch.audit.weights import LOSS_TYPES
from rlwatch.capture.monitor import Monitor
from rlwatch.cli import app
from rlwatch.detect.rules import RULES
from rlwatch.readers.loading import READERS
from rlwatch.runs.metrics import METRICS

FENCED = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
PATH = re.compile(r"(?:examples|benchmarks|tests|docs|rlwatch|dashboard)/[\w./-]+")


def inline(page: Path) -> list[str]:
    """What stands in backticks within the text."""
    return INLINE.findall(FENCED.sub("", page.read_text(encoding="utf-8")))


def said_commands() -> Iterator[tuple[str, list[str]]]:
    """Each command of rlwatch within a sentence, or in a file of a CI's."""
    for page in PAGES:
        for text in inline(page):
            if text.startswith("rlwatch ") and "/" not in text.split()[1]:
                yield f"{page.name}: {text}", shlex.split(text)[1:]
        for block in blocks(page):
            if block.language == "yaml":
                for text in re.findall(r"rlwatch .+$", block.text, re.MULTILINE):
                    yield block.place, shlex.split(text, comments=True)[1:]


def test_a_command_that_is_spoken_of_exists_with_its_options() -> None:
    found = list(said_commands())
    assert len(found) > 20
    for place, words in found:
        command: Any = typer.main.get_command(app)
        while hasattr(command, "commands") and words and words[0] in command.commands:
            command = command.commands[words.pop(0)]
        assert not hasattr(command, "commands") or not words, f"{place}: there is no {words[0]}"
        known = {opt for param in command.params for opt in param.opts} | {"--help"}
        options = {word.partition("=")[0] for word in words if word.startswith("-") and len(word) > 1}
        assert options <= known, f"{place}: {options - known}"


def test_an_argument_that_is_spoken_of_exists() -> None:
    callback = pytest.importorskip("rlwatch.capture.callback", reason="it needs the extra `trl`")
    known = {
        "RLWatchCallback": inspect.signature(callback.RLWatchCallback).parameters,
        "Monitor": inspect.signature(Monitor).parameters,
    }
    seen = 0
    for page in PAGES:
        for text in inline(page):
            for name, argument in re.findall(r"\b(RLWatchCallback|Monitor)\((\w+)=", text):
                assert argument in known[name], f"{page.name}: {text}"
                seen += 1
    assert seen >= 4


def test_a_file_that_is_spoken_of_exists() -> None:
    missing = [
        f"{page.name}: {path}"
        for page in PAGES
        for text in inline(page)
        for path in PATH.findall(text)
        if text.startswith(path) and not (ROOT / path).exists() and not (ROOT / path.rpartition(".")[0]).exists()
    ]
    assert not missing


def test_a_metric_or_rule_that_is_spoken_of_exists() -> None:
    families = {name.partition("/")[0] for name in METRICS if "/" in name}
    rules = {rule.name for rule in RULES} | LINTS.keys()
    for page in PAGES:
        text = FENCED.sub("", page.read_text(encoding="utf-8"))
        for name in INLINE.findall(text):
            if re.fullmatch(r"[a-z_]+/[a-z0-9_]+", name) and name.partition("/")[0] in families:
                assert name in METRICS or name.startswith("reward/"), f"{page.name}: {name}"
        for anchor in re.findall(r"\(\S*(?:rules|lints)\.md#([\w-]+)\)", text):
            assert anchor in rules | {"all-rules"}, f"{page.name}: {anchor}"


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_counts_and_lists_are_those_of_the_code() -> None:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        from simulated import FAILURES, KINDS
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))
    text = page("calibration.md")
    harmless = len(KINDS) - len(FAILURES)
    assert f"{len(FAILURES)} classes of failures and {harmless}\nharmless ones" in text
    assert set(re.findall(r"^\| ([a-z-]+) \| \d+ % \| \d+ % \| \d+ % \|", text, re.MULTILINE)) == set(FAILURES)
    for variable in (*VARIABLES, "RLWATCH_DASHBOARD_TOKEN"):
        assert f"`{variable}`" in page("cli.md")
    table = page("denominators.md")[page("denominators.md").index("| TRL 1.16") :].partition("\n\n")[0]
    for loss in LOSS_TYPES:
        assert {"rloo": "RLOOTrainer"}.get(loss, loss) in table, loss
    for room in (path for path in (ROOT / "rlwatch").iterdir() if (path / "__init__.py").is_file()):
        assert f"`rlwatch/{room.name}`" in page("architecture.md"), room
    formats = page("analyze.md")
    assert len(READERS) == 14, "another format: does analyze.md say so?"
    assert all(word in formats for word in ("TensorBoard", "wandb", "trackio", "Parquet", "CSV", "notebooks", "verl"))


def test_what_was_not_run_is_said_where_it_matters() -> None:
    for name in ("index.md", "howto/several-gpus.md", "howto/vllm.md", "../README.md"):
        assert re.search(r"not (?:been )?\**\s*run", page(name), re.IGNORECASE), name
    for word in ("GPUs", "vLLM", "FSDP1", "ZeRO-3"):
        assert word in page("index.md")
        assert word in page("../README.md")


def test_the_audit_in_the_readme_is_what_is_printed(tmp_path: Path) -> None:
    (tmp_path / "grpo.yaml").write_text("loss_type: dapo\n")
    printed = CliRunner().invoke(app, ["audit", str(tmp_path / "grpo.yaml")]).output
    [shown] = re.findall(r"```text\n(GRPOTrainer.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    sentences = [" ".join(part.split()) for part in re.split(r"\.\.\.|•", shown)]
    assert len(sentences) == 4
    assert all(sentence in " ".join(printed.split()) for sentence in sentences if sentence), sentences
