"""The reports of the lab in the docs are those of the experiments as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rlwatch.lab.experiments import MODULES, find

FOLDER = Path(__file__).parent.parent / "docs" / "lab"


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_report_is_of_the_experiment_as_it_is(name: str) -> None:
    experiment, report = find(name), (FOLDER / f"{name}.md").read_text()
    assert experiment.question in report
    assert experiment.regime in report
    rows = {row.split(" | ")[0].strip("| ").removesuffix(" (where it should vanish)") for row in report.splitlines()}
    assert {claim.says.replace("|", "\\|") for claim in experiment.claims} <= rows
    arms = re.search(r"--arms (\S+)", report)
    assert arms is not None
    assert arms[1].split(",") == [arm.name for arm in experiment.arms], "all arms were run"
    assert re.search(r"runs with ([5-9]|[1-9]\d) seeds", report)


@pytest.mark.parametrize("name", sorted(MODULES))
def test_the_table_says_what_the_report_says(name: str) -> None:
    report, table = (FOLDER / f"{name}.md").read_text(), (FOLDER / "index.md").read_text()
    counted = re.search(r"(\d+) claims on .*?: (\d+) shown", report)
    assert counted is not None
    row = next(line for line in table.splitlines() if line.startswith(f"| [{name}]({name}.md)"))
    assert f"| {counted[2]} of {counted[1]} |" in row
