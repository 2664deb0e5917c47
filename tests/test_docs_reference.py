"""The reference pages say what the code says: every name of it, and the shape of a real report."""

from __future__ import annotations

import copy
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import rlwatch
import rlwatch.rules
from doc_blocks import ROOT
from report_runs import made, made_run, not_finite
from rlwatch.audit.lints import LINTS
from rlwatch.detect.rules import RULES
from rlwatch.detect.setting import settings_of
from rlwatch.report.analysis import Analysis, analyze_run
from rlwatch.report.as_json import report
from rlwatch.runs.metrics import METRICS
from rlwatch.settings import Settings

sys.path.insert(0, str(ROOT / "docs"))
try:
    from made import commands, lints, metrics, python_api, report_json, rules, traps
finally:
    sys.path.remove(str(ROOT / "docs"))


def test_every_metric_is_there_with_its_formula_and_a_trap_belongs_to_one() -> None:
    page = metrics.page()
    for name, metric in METRICS.items():
        [row] = re.findall(rf"^\| `{re.escape(name)}`<br>.*$", page, re.MULTILINE)
        assert metrics.cell(metric.formula) in row
        assert len(re.findall(r"(?<!\\)\|", row)) == 5, f"a bar ends a cell too soon: {row}"
    assert traps.TRAPS.keys() <= METRICS.keys()
    assert all(text and not text.endswith(".") for text in traps.TRAPS.values())


def test_every_rule_is_there_with_its_numbers_and_where_they_are_from() -> None:
    sections = dict(re.findall(r"^### (\S+)\n(.*?)(?=^### |\Z)", rules.page(), re.MULTILINE | re.DOTALL))
    assert list(sections) == [rule.name for rule in RULES]
    for rule in RULES:
        for name, setting in settings_of(rule).items():
            [row] = [line for line in sections[rule.name].splitlines() if line.startswith(f"| `{name}` |")]
            assert f"| {setting.default:g} |" in row
            assert metrics.cell(setting.source) in row
        assert all(f"`{need}`" in sections[rule.name] for need in rule.needs)


def test_every_lint_is_there_with_each_of_its_severities() -> None:
    page = lints.page()
    assert lints.TRIPS.keys() == LINTS.keys()
    assert lints.ALSO.keys() <= LINTS.keys()
    for name in LINTS:
        lint = lints.tripped(name)
        assert f"### {name}\n\n*{lint.severity.value}*: {lint.message}" in page
        assert lint.source in page
        severities = {lint.severity, *(lints.tripped(name, changed).severity for changed in lints.ALSO.get(name, ()))}
        [row] = re.findall(rf"^\| \[{name}\].*$", page, re.MULTILINE)
        assert all(severity.value in row for severity in severities)


def test_every_command_and_option_is_there() -> None:
    sections = dict(re.findall(r"^### rlwatch (.+?)\n(.*?)(?=^### |\Z)", commands.page(), re.MULTILINE | re.DOTALL))
    assert sections.keys() == commands.commands().keys() > {"analyze", "alerts test", "lab"}
    for name, command in commands.commands().items():
        for param in command.params:
            spelled = [f"`{opt}" for opt in param.opts] if param.param_type_name == "option" else [param.help]
            assert all(text in sections[name] for text in spelled), f"{name}: {spelled}"


def test_every_public_name_is_there_and_no_reference_is_left_over() -> None:
    pytest.importorskip("transformers", reason="the callback needs the extra `trl`")
    page = python_api.page()
    public = [name for name in rlwatch.__all__ if name != "__version__"]
    for name in [*(f"rlwatch.{n}" for n in public), *(f"rlwatch.rules.{n}" for n in rlwatch.rules.__all__)]:
        assert f"### {name}\n" in page
    for method in ("rollouts", "tokens", "gradients", "step", "state_dict", "load_state_dict", "close", "should_stop"):
        assert f"#### Monitor.{method}\n" in page
    assert "][" not in page
    headings = {re.sub(r"[^\w-]", "", heading.lower()) for heading in re.findall(r"^#+ (.+)$", page, re.MULTILINE)}
    assert set(re.findall(r"\(api\.md#([^)]+)\)", page + rules.page())) <= headings


def test_a_signature_is_that_of_the_code() -> None:
    pytest.importorskip("transformers", reason="the callback needs the extra `trl`")
    page = python_api.page()
    assert "    dir: str | os.PathLike[str] = 'runs',\n    *,\n    name: str | None = None,\n" in page
    assert "show(run: Any, *, theme: str = 'auto') -> Shown" in page


@pytest.fixture(scope="module")
def reports() -> list[dict[str, Any]]:
    """Real reports: of good and failed runs, numbers that are none, other settings, a run without rows, bad paths."""
    other = Settings.of({"rules": {"dead-groups": {"at_most": "warning"}, "reward-collapse": {"enabled": False}}})
    changed = analyze_run(made_run("changed", dies=60), settings=other)
    empty: list[Analysis] = [analyze_run(made_run("empty", 0))]
    analyses = [made(dies=60), made(), not_finite(), changed, *empty]
    return [json.loads(json.dumps(report(each, {"x.log": "it is empty"}))) for each in (analyses, [])]


def test_a_report_is_as_its_schema_says(reports: list[dict[str, Any]]) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="it comes with nbformat, in the extra `dev`")
    validator = jsonschema.Draft202012Validator(report_json.schema())
    validator.check_schema(report_json.schema())
    for each in reports:
        assert not list(validator.iter_errors(each))
    seen = reports[0]["runs"]
    assert any(run["alerts"] for run in seen)
    assert any("changed" in run for run in seen)
    assert any("NaN" in json.dumps(run["alerts"]) for run in seen)

    for path, wrong in (
        ((), {"more": 1}),
        (("runs", 0), {"verdict": "fine"}),
        (("runs", 0, "alerts", 0), {"step": "4"}),
    ):
        broken = copy.deepcopy(reports[0])
        inside: Any = broken
        for key in path:
            inside = inside[key]
        inside.update(wrong)
        assert list(validator.iter_errors(broken)), wrong


def test_every_key_of_the_schema_has_words() -> None:
    page = report_json.page()
    for cls in report_json.CLASSES:
        assert f"### {cls.__name__}\n" in page
    assert not re.findall(r"^\| `\w+` \| .* \|\s*\|$", page, re.MULTILINE)


def test_doctests_of_the_generators(tmp_path: Path) -> None:
    import doctest

    results = [doctest.testmod(module) for module in (metrics, python_api, report_json)]
    assert sum(result.failed for result in results) == 0
    assert sum(result.attempted for result in results) >= 3
