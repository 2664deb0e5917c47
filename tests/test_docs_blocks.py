"""Every block of code in README and docs is run with real inputs, or says before it why it is not."""

from __future__ import annotations

import ast
import contextlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml
from typer.testing import CliRunner

import rlwatch
from doc_blocks import LANGUAGES, PAGES, ROOT, Block, blocks, check, commands
from report_runs import made_run
from rlwatch.cli import app
from rlwatch.settings import Settings

BLOCKS = [block for page in PAGES for block in blocks(page)]
NOT_RUN = [block for block in BLOCKS if block.skip]
RUN_LANGUAGES = LANGUAGES - {"text", "nginx"}


def test_a_block_says_its_language_and_why_it_is_not_run() -> None:
    assert not [block.place for block in BLOCKS if block.language not in LANGUAGES]
    marks = sum(len(re.findall(r"^ *<!-- not run", page.read_text(encoding="utf-8"), re.MULTILINE)) for page in PAGES)
    assert marks == len(NOT_RUN), "a mark stands right before its fence"
    assert len(NOT_RUN) == 14, "one more or one less is not run: is that so, and why?"
    assert len([block for block in BLOCKS if block.language in RUN_LANGUAGES]) > 4 * len(NOT_RUN)


def test_no_command_or_code_hides_outside_of_a_fence() -> None:
    for page in PAGES:
        text = re.sub(r"^( *)```.*?^\1```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        assert not re.findall(r"^ {4,}(?:rlwatch|python|pip|export|import|from) .*$", text, re.MULTILINE), page


@pytest.mark.parametrize("block", NOT_RUN, ids=lambda block: block.place)
def test_what_is_not_run_can_be_read(block: Block) -> None:
    if block.language == "python":
        ast.parse(block.text)
    for _, words in commands(block) if block.language == "sh" else ():
        if words[:1] == ["rlwatch"]:
            _parse(words[1:])


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory, make_trainer: Callable[..., Any]) -> Path:
    """What the pages speak of: a log, a configuration, a checkpoint, and a folder of runs, one of them trained."""
    folder = tmp_path_factory.mktemp("workshop")
    runs = folder / "runs"
    trainer = make_trainer(callbacks=[rlwatch.RLWatchCallback(runs, name="grpo-trl")], max_steps=6)
    trainer.train()
    (folder / "train.log").write_text("".join(f"{row}\n" for row in trainer.state.log_history))
    checkpoint = folder / "checkpoint-500"
    checkpoint.mkdir()
    trainer.state.save_to_json(str(checkpoint / "trainer_state.json"))
    (checkpoint / "args.json").write_text(json.dumps(trainer.args.to_dict(), default=str))
    (folder / "grpo.yaml").write_text("loss_type: dapo\nnum_generations: 8\nnum_iterations: 1\n")
    (folder / "other.toml").write_text("[rules.dead-groups]\nat_most = 'warning'\n")
    with contextlib.ExitStack() as stack:
        for name, config, steps, dies in (
            ("my-run", {"loss_type": "dapo"}, 150, 60),
            *((f"{arm}-seed{seed}", {"epsilon_high": high, "seed": seed}, 30, None)
              for arm, high in (("a", 0.2), ("b", 0.28)) for seed in (1, 2)),
        ):  # fmt: skip
            monitor = stack.enter_context(rlwatch.Monitor(runs, name=name, config=config))
            for record in made_run(name, steps, dies=dies).records:
                monitor.step(record.step, **{n: x for n, x in record.metrics.items() if x is not None})
        wandb = folder / "wandb" / "run-20261130_120000-abc123" / "files"
        wandb.mkdir(parents=True)
        (wandb / "output.log").write_text((folder / "train.log").read_text())
    return folder


@pytest.fixture
def place(workshop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it to work in."""
    folder = shutil.copytree(workshop, tmp_path / "place")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_blocks_of_a_page_run(
    page: Path, place: Path, make_trainer: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    space: dict[str, Any] = {"GRPOTrainer": _stand_in(make_trainer)}
    for block in blocks(page):
        if block.skip is not None:
            continue
        if block.language == "python":
            _run_python(block, space, make_trainer)
        elif block.language == "sh":
            _run_shell(block, monkeypatch)
        elif block.language == "toml":
            (place / "rlwatch.toml").write_text(block.text, encoding="utf-8")  # the blocks that follow find it
            Settings.of(place / "rlwatch.toml")  # raises where a key is none
        elif block.language == "yaml":
            assert yaml.safe_load(block.text), block.place
        elif block.language == "json":
            assert [json.loads(line) for line in block.text.splitlines()], block.place


def _stand_in(make_trainer: Callable[..., Any]) -> Callable[..., Any]:
    """What `GRPOTrainer(..., callbacks=[...])` says: a real one, with what the three dots leave out."""

    def grpo_trainer(dots: Any, **given: Any) -> Any:
        assert dots is Ellipsis
        return make_trainer(max_steps=2, **given)

    return grpo_trainer


def _run_python(block: Block, space: dict[str, Any], make_trainer: Callable[..., Any]) -> None:
    if block.text.startswith("--8<--"):  # an example, which test_examples.py runs
        assert (ROOT / block.text.splitlines()[1]).is_file()
        return
    if re.search(r"\baudit\(trainer\)", block.text):
        space.setdefault("trainer", make_trainer())
    exec(compile(block.text, block.place, "exec", dont_inherit=True), space)


def _run_shell(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    for variables, words in commands(block):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        if words[:1] == ["rlwatch"]:
            done = CliRunner().invoke(app, words[1:])
            judges = words[1] in ("analyze", "audit")  # which exit with 1 where they find what they were asked for
            assert done.exit_code in ((0, 1) if judges else (0,)), f"{block.place}: {words}\n{done.output}"
            assert done.output or "-o" in words, f"{block.place}: {words} says nothing"
        elif words:
            check(words)


def _parse(words: list[str]) -> None:
    """Raises where the command line has no such command, option or value."""
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    command.make_context("rlwatch", words)
