"""`rlwatch.toml`: found, checked to the last key, and used live and after the fact alike."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import rlwatch
from rlwatch.alerts.configured import Delivery
from rlwatch.cli import app
from rlwatch.detect.rules import RULES
from rlwatch.detect.setting import settings_of
from rlwatch.report.analysis import analyze_run
from rlwatch.report.follow import Follower
from rlwatch.report.html import html_report
from rlwatch.rules import CLEAR, NO_DATA, Finding, Rule, Setting, Severity, StepRecord, finite
from rlwatch.runs.reader import list_runs, read_alerts, read_info
from rlwatch.runs.records import Alert, AlertState, Run
from rlwatch.settings import Chooser, Settings, SettingsError, find
from rlwatch.settings.problems import line_of
from rlwatch.settings.template import number, template

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

RUNNER = CliRunner()
ROOT = Path(__file__).parents[1]

KL = {"name": "kl-too-high", "metric": "kl/ref", "when": "above", "value": 0.5, "over": 5}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test finds a file of the developer's, and none sends an alert."""
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    for name in list(os.environ):
        if name.startswith(("RLWATCH_", "SLACK_")):
            monkeypatch.delenv(name)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def problem(text: str, tmp_path: Path) -> str:
    path = write(tmp_path / "rlwatch.toml", text)
    with pytest.raises(SettingsError) as caught:
        Settings.load(path)
    assert str(caught.value).startswith(str(path))
    return str(caught.value).replace(str(tmp_path) + os.sep, "")


def row(step: int, **more: Any) -> dict[str, Any]:
    reward = (0.8 if step < 100 else 0.02) + 0.02 * math.sin(7 * step)
    return {"step": step, "loss": 0.01, "reward": reward, "reward_std": 0.3, "kl": 0.005 * step, "entropy": 0.5, **more}


def collapsing(path: Path, steps: int = 200) -> Path:
    return write(path, "".join(json.dumps(row(step)) + "\n" for step in range(1, steps + 1)))


def report(*arguments: object, code: int) -> dict[str, Any]:
    result = RUNNER.invoke(app, ["analyze", *map(str, arguments), "--format", "json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)["runs"][0]  # type: ignore[no-any-return]


class Odd(Rule):
    """Every metric is odd."""

    name = "odd"
    needs = ("loss",)
    limit = Setting(0.5, "loss", "a guess")

    def __init__(self, config: Any = None, settings: Mapping[str, object] | None = None) -> None:
        super().__init__(config, settings)
        self.seen = 0

    def update(self, record: StepRecord) -> Any:
        self.seen += 1
        loss = finite(record, "loss")
        if loss is None:
            return NO_DATA
        return Finding(Severity.WARNING, loss, self.limit, f"loss {loss}") if loss > self.limit else CLEAR


class Fails(Odd):
    """Raises at the tenth step."""

    name = "fails"

    def update(self, record: StepRecord) -> Any:
        if record.step >= 10:
            raise ZeroDivisionError("on purpose")
        return CLEAR


# --- what is taken


def test_everything_that_the_docs_show_is_taken() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    [example] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    made = Settings.of(tomllib.loads(example))
    by_name = {rule.name: rule for rule in made.rules({})}
    assert by_name["entropy-collapse"].fallen == 0.2  # type: ignore[attr-defined]
    assert "truncation" not in by_name
    assert "kl-too-high" in by_name
    assert made.silenced == ("truncation",)
    assert made.alerts["repeat"] == 4 * 3600
    delivery = Delivery.read(made.alerts, {"TEAM_WEBHOOK": "https://hooks.slack.com/services/T/B/X"})
    assert (delivery.repeat, delivery.least) == (14400, Severity.WARNING)
    assert delivery.slack.endswith("/X")


def test_what_rlwatch_settings_prints_loads_and_changes_nothing() -> None:
    result = RUNNER.invoke(app, ["settings"])
    assert result.exit_code == 0
    assert result.stdout == template()
    as_it_is = Settings.of(tomllib.loads(template()))
    assert not as_it_is.changes_rules
    assert not as_it_is.alerts
    text = re.sub(r"^#(?=[a-z\[])", "", template(), flags=re.MULTILINE)
    switched_on = tomllib.loads(text)
    for rule in RULES:
        table = switched_on["rules"][rule.name]
        assert (table.pop("enabled"), table.pop("at_most")) == (True, "critical")
        assert table == {name: setting.default for name, setting in settings_of(rule).items()}
    made = Settings.of(tomllib.loads(text))
    assert not made.parsed.changed
    assert [own["name"] for own in made.parsed.own] == ["kl-too-high"]
    Delivery.read(made.alerts, {})
    assert max(map(len, template().splitlines())) <= 120


@given(st.floats(allow_nan=False))
def test_a_number_in_the_template_is_that_number(value: float) -> None:
    assert tomllib.loads(f"x = {number(value)}")["x"] == value


def test_nothing_set_is_what_rlwatch_comes_with() -> None:
    made = Settings.load().rules({"epsilon": 0.2})
    assert [type(rule) for rule in made] == list(RULES)
    assert all(rule.config == {"epsilon": 0.2} for rule in made)
    assert Settings.load().to_dict() == {}


def test_a_changed_number_is_the_rules_own_and_no_other_ones() -> None:
    made = Settings.of({"rules": {"entropy-collapse": {"fallen": 0.2}}})
    [changed] = [rule for rule in made.rules() if rule.name == "entropy-collapse"]
    [plain] = [rule for rule in Settings().rules() if rule.name == "entropy-collapse"]
    assert (changed.fallen, plain.fallen) == (0.2, 0.3)  # type: ignore[attr-defined]


def test_own_rules_can_be_changed_by_name_too() -> None:
    made = Settings.of({"rule": [KL], "rules": {"kl-too-high": {"value": 0.2, "over": 7, "at_most": "info"}}})
    [mine] = [rule for rule in made.rules() if rule.name == "kl-too-high"]
    assert (mine.value, mine.over, mine.release.steps) == (0.2, 7, 7)  # type: ignore[attr-defined]
    assert Settings.of({"rule": [KL], "rules": {"kl-too-high": {"enabled": False}}}).silenced == ("kl-too-high",)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("4h", 14400), ("90s", 90), ("30m", 1800), ("1d", 86400), (60, 60), (0, 0), ("1.5 h", 5400)],
)
def test_a_time(written: object, seconds: float) -> None:
    assert Settings.of({"alerts": {"repeat": written}}).alerts["repeat"] == seconds


def test_a_command_is_a_list_and_keeps_its_words() -> None:
    made = Settings.of({"alerts": {"command": {"run": ["notify", "--title", "two words"]}}})
    assert Delivery.read(made.alerts, {}).command == "notify --title 'two words'"


# --- what is wrong is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[rules.entropy-colapse]\nfallen = 0.2", "line 1: rules.entropy-colapse: there is no such rule: did you mean"),
        ("[rules.entropy-collapse]\n\nfalen = 0.2", "line 3: rules.entropy-collapse.falen: there is no such key: did"),
        ("[rules.entropy-collapse]\nfallen = true", "line 2: rules.entropy-collapse.fallen: has to be a number (share"),
        ("[rules.entropy-collapse]\nfallen = 3.0", "line 2: rules.entropy-collapse.fallen: has to be from"),
        ("[rules.entropy-collapse]\nfallen = nan", "line 2: rules.entropy-collapse.fallen: has to be a number"),
        ("[rules.truncation]\nenabled = 0", "line 2: rules.truncation.enabled: has to be true or false, and is 0"),
        ("[rules.truncation]\nat_most = 'bad'", "line 2: rules.truncation.at_most: there is no 'bad'"),
        ("[rules]\ntruncation = 3", "line 2: rules.truncation: has to be a table, and is 3"),
        ("rules = []", "line 1: rules: has to be a table, and is []"),
        ("[alert]", "line 1: alert: there is no such key: did you mean 'alerts'?"),
        ("[alerts]\nrepeat = 'soon'", "line 2: alerts.repeat: has to be seconds or a time such as"),
        ("[alerts]\nrepeat = -1", "alerts.repeat: has to be seconds"),
        ("[alerts]\nmin_severity = 'warn'", "line 2: alerts.min_severity: there is no 'warn': did you mean 'warning'?"),
        ("[alerts.slak]", "alerts.slak: there is no such key: did you mean 'slack'?"),
        ("[alerts.slack]\nwebhok = 'x'", "line 2: alerts.slack.webhok: there is no such key: did you mean 'webhook'?"),
        ("[alerts.command]\nrun = []", "line 2: alerts.command.run: has to be a list of texts"),
        ("[rule]\nname = 'x'", "line 1: rule: a rule of your own is a table in a list: it begins with [[rule]]"),
        ("[[rule]]\nname = 'x'", "line 1: [[rule]] number 1: has no metric and no when and no value"),
        ("a = ?", "it is not TOML: Invalid value (at line 1, column 5)"),
        ("a = 1\na = 2", "it is not TOML"),
    ],
)
def test_an_error_names_the_file_the_line_the_key_and_the_nearest(text: str, said: str, tmp_path: Path) -> None:
    found = problem(text, tmp_path)
    assert said in found
    assert len(found.splitlines()) == 1


RULE = '[[rule]]\nname = "{name}"\nmetric = "kl/ref"\nwhen = "{when}"\nvalue = {value}\n{more}\n'


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "truncation"}, "name: 'truncation' comes with rlwatch: choose another name"),
        ({"name": "KL high"}, "name: has to be of small letters, digits and dashes"),
        ({"when": "abov"}, "line 4: [[rule]] number 1, when: there is no 'abov': did you mean 'above'?"),
        ({"value": "'much'"}, "value: has to be a number"),
        ({"value": "'50%'"}, "value: '50%' is a change: it goes with when = rises or falls"),
        ({"value": "-1", "when": "rises"}, "value: has to be from 0 to"),
        ({"value": "inf"}, "value: has to be from"),
        ({"more": "over = 0"}, "over: has to be from 1 to 10000"),
        ({"more": "severity = 'bad'"}, "severity: there is no 'bad'"),
        ({"more": "message = '{value.__class__}'"}, "message: {value.__class__} is no field; there are value,"),
        ({"more": "message = ''"}, "message: has to be a text"),
        ({"more": "advice = [1]"}, "advice: has to be a text or a list of them"),
        ({"more": "mesage = 'x'"}, "mesage: there is no such key: did you mean 'message'?"),
    ],
)
def test_what_is_wrong_with_a_rule_of_ones_own(change: dict[str, str], said: str, tmp_path: Path) -> None:
    found = problem(RULE.format(**{"name": "mine", "when": "above", "value": "1", "more": "", **change}), tmp_path)
    assert said in found
    assert len(found.splitlines()) == 1


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    twice = RULE.format(name="mine", when="above", value="1", more="") * 2
    found = problem(twice + "[alerts]\nrepeat = 'x'\n[rules.x]\n", tmp_path).splitlines()
    assert len(found) == 3
    assert "[[rule]] number 2, name: 'mine' is there twice" in found[0]
    assert "line 8" in found[0]


@pytest.mark.parametrize("secret", ["https://hooks.slack.com/services/T0/B0/s3cr3t", "s3cr3t"])
def test_a_secret_is_in_no_error_no_text_and_no_run_json(secret: str, tmp_path: Path) -> None:
    made = Settings.of({"alerts": {"slack": {"webhook": secret}, "command": {"run": ["curl", secret]}}})
    assert "s3cr3t" not in repr(made.to_dict())
    assert made.to_dict()["alerts"] == {"channels": ["slack", "command"]}
    path = write(
        tmp_path / "rlwatch.toml", f'[alerts.slack]\nwebhook = ["{secret}"]\n[alerts.command]\nrun = [1, "{secret}"]'
    )
    with pytest.raises(SettingsError) as caught:
        Settings.load(path)
    assert "s3cr3t" not in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.toml: it cannot be read: No such file"):
        Settings.load(tmp_path / "none.toml")
    with pytest.raises(SettingsError, match="it cannot be read: Is a directory"):
        Settings.load(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b"a = '\xe4'")
    with pytest.raises(SettingsError, match=r"it is not UTF-8 \(byte 5\)"):
        Settings.load(tmp_path / "latin.toml")
    write(tmp_path / "large.toml", "#" * 1_000_001)
    with pytest.raises(SettingsError, match="more than 1,000,000 bytes"):
        Settings.load(tmp_path / "large.toml")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)
WORDS = st.sampled_from(
    ["rules", "rule", "alerts", "slack", "command", "apprise", "run", "urls", "webhook", "repeat", "min_severity",
     "name", "metric", "when", "value", "over", "message", "advice", "severity", "enabled", "at_most", "fallen",
     "wandb", "entropy-collapse", "truncation", "page_url", "above", "rises", "x"]
)  # fmt: skip
LIKELY = st.recursive(
    JSON
    | WORDS
    | st.sampled_from(["50%", "4h", "{value}", "warning", 10**400, 0.5, 20])
    | st.just(5000).map(lambda n: -(10**n)),
    lambda inner: st.dictionaries(WORDS, inner, max_size=5) | st.lists(inner, max_size=3),
    max_leaves=20,
)


@given(st.one_of(JSON, LIKELY, st.dictionaries(WORDS, LIKELY)))
@settings(max_examples=300, deadline=None)
def test_any_mapping_is_taken_or_refused_with_words(data: Any) -> None:
    try:
        made = Settings.of(data)
    except SettingsError as error:
        assert str(error)  # noqa: PT017  # whether there is one is what hypothesis decides
        return
    made.rules({})
    json.dumps(made.to_dict())
    Delivery.read(made.alerts, {})


LINES = st.one_of(
    st.sampled_from(
        ["[rules.truncation]", "[rules.entropy-collapse]", "[[rule]]", "[alerts]", "[alerts.slack]", "[rules]",
         "[rule]", "fallen = 0.2", "enabled = false", "enabled = 1979-05-27", "at_most = 'info'", 'name = "a"',
         "when = 'above'", "value = 0x" + "f" * 6000, "value = 1", "value = " + "9" * 5000, "metric = 'loss'",
         "message = '{value}'", "over = 1e400", "a.b.c = 1", "x = " + "[" * 3000, "repeat = '4h'", "rule = 1",
         "# comment", "\0", "'' = 1"]
    ),
    st.text(max_size=20),
)  # fmt: skip


@given(st.lists(LINES, max_size=8).map("\n".join) | st.text(max_size=60) | st.binary(max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_text_loads_or_is_refused_with_words(tmp_path_factory: pytest.TempPathFactory, text: str | bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    try:
        made = Settings.load(path)
    except SettingsError as error:
        assert str(error).startswith(str(path))  # noqa: PT017  # as above
        return
    made.rules({})
    json.dumps(made.to_dict())


@given(st.text(max_size=30), st.lists(st.text(max_size=9) | st.integers(0, 3), max_size=4))
def test_looking_for_a_line_never_fails(text: str, where: list[Any]) -> None:
    line_of(text, where)


@given(st.text(max_size=30), st.text(max_size=20) | st.floats() | st.integers())
@settings(deadline=None)
def test_any_set_is_taken_or_refused_with_words(name: str, value: Any) -> None:
    for what in (name, f"entropy-collapse.{name}", "entropy-collapse.fallen"):
        try:
            Settings().with_set(what, value).rules()
        except SettingsError as error:
            assert str(error)  # noqa: PT017  # as above


# --- where it is found


def test_it_is_found_beside_the_run_then_in_the_folder_of_runs_then_here(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "a"
    write(run / "run.json", "{}")
    write(run / "metrics.rank0.jsonl", "")
    assert find(run) is None
    here = write(Path("rlwatch.toml"), "")
    assert find(run) == find() == here
    beside = write(tmp_path / "runs" / "rlwatch.toml", "")
    assert find(run) == beside
    own = write(run / "rlwatch.toml", "")
    assert find(run) == find(run / "metrics.rank0.jsonl") == own
    log = write(tmp_path / "logs" / "train.log", "")
    assert find(log) == here
    nearer = write(tmp_path / "logs" / "rlwatch.toml", "")
    assert find(log) == nearer
    assert find(tmp_path / "runs" / "is-to-be") == beside


def test_a_file_of_settings_is_no_log_and_no_run_that_was_skipped(tmp_path: Path) -> None:
    collapsing(tmp_path / "logs" / "bad.jsonl")
    write(tmp_path / "logs" / "rlwatch.toml", "")
    report(tmp_path / "logs", code=1)
    assert list_runs(tmp_path / "logs")[1] == [s for s in list_runs(tmp_path / "logs")[1] if "toml" not in s.path.name]


# --- after the fact


def test_analyze_shows_what_would_have_fired(tmp_path: Path) -> None:
    log = collapsing(tmp_path / "bad.jsonl")
    plain = report(log, code=1)
    assert "settings" not in plain
    assert "changed" not in plain
    file = tmp_path / "other.toml"
    write(
        file,
        '[rules.reward-collapse]\nat_most = "warning"\n'
        + RULE.format(name="kl-too-high", when="above", value=0.5, more=""),
    )
    run = report(log, "--settings", file, code=0)
    assert run["settings"]["from"] == str(file)
    assert run["settings"]["rules"] == {"reward-collapse": {"at_most": "warning"}}
    changed = {each["rule"]: each for each in run["changed"]}
    assert changed["reward-collapse"]["with"]["severity"] == "warning"
    assert changed["reward-collapse"]["by_default"]["severity"] == "critical"
    assert changed["kl-too-high"]["by_default"] is None
    assert {a["rule"] for a in run["alerts"]} >= {"reward-collapse", "kl-too-high"}

    text = RUNNER.invoke(app, ["analyze", str(log), "--settings", str(file)]).stdout
    assert f"Set by {file}" in text
    assert re.search(r"reward-collapse +warning at step 10\d \(since 10\d\) +critical at step 10\d", text)
    assert re.search(r"kl-too-high +warning at step \d+ \(since \d+\) +–", text)


def test_set_replays_one_setting(tmp_path: Path) -> None:
    log = collapsing(tmp_path / "bad.jsonl")
    run = report(log, "--set", "reward-collapse.enabled=false", code=0)
    assert run["changed"][0]["with"] is None
    assert run["unchecked"]["reward-collapse"] == "it is silenced by the settings (enabled = false)"
    run = report(log, "--set", "truncation.nearly_all=0.5", code=1)
    assert run["changed"] == []
    text = RUNNER.invoke(app, ["analyze", str(log), "--set", "truncation.nearly_all=0.5"]).stdout
    assert "truncation.nearly_all = 0.5  by default 0.95 (share of completions)" in text
    assert "The alerts are the same as by the defaults." in text
    many = RUNNER.invoke(
        app, ["analyze", str(log), str(collapsing(tmp_path / "b.jsonl")), "--set", "reward-collapse.enabled=false"]
    )
    assert "alerts differ from those by the defaults in 2 of 2 runs: bad, b." in many.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--set", "entropy-collapse.falen=1"], "did you mean 'fallen'?"),
        (["--set", "entropy-colapse.fallen=1"], "did you mean 'entropy-collapse'?"),
        (["--set", "entropy-collapse.fallen=much"], "has to be a number"),
        (["--set", "fallen=1"], "there is correct=COLUMN"),
        (["--set", "entropy-collapse.fallen"], "there is correct=COLUMN"),
        (["--settings", "none.toml"], "none.toml: it cannot be read: No such file or directory"),
    ],
)
def test_a_wrong_setting_is_exit_code_2_and_no_traceback(arguments: list[str], said: str, tmp_path: Path) -> None:
    result = RUNNER.invoke(app, ["analyze", str(collapsing(tmp_path / "bad.jsonl")), *arguments])
    assert result.exit_code == 2
    assert result.stderr.startswith("rlwatch: ")
    assert said in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize("command", ["analyze", "compare", "follow"])
def test_a_wrong_file_beside_a_log_is_exit_code_2(command: str, tmp_path: Path) -> None:
    log = collapsing(tmp_path / "logs" / "bad.jsonl")
    write(tmp_path / "logs" / "rlwatch.toml", "[ruls]")
    result = RUNNER.invoke(app, [command, str(log)])
    assert result.exit_code == 2
    assert "rlwatch.toml, line 1: ruls: there is no such key: did you mean 'rules'?" in result.output


def test_the_same_by_python_and_settings_may_be_a_mapping(tmp_path: Path) -> None:
    log = collapsing(tmp_path / "bad.jsonl")
    [analysis] = rlwatch.analyze(log, settings={"rules": {"reward-collapse": {"at_most": "info"}}, "rule": [KL]})
    assert {a.rule: a.severity for a in analysis.alerts}["reward-collapse"] is Severity.INFO
    assert {each.rule for each in analysis.changed} >= {"reward-collapse", "kl-too-high"}
    with pytest.raises(SettingsError):
        rlwatch.analyze(log, settings={"ruls": {}})
    with pytest.raises(ValueError, match="settings= takes a path or a mapping"):
        rlwatch.analyze(log, settings=3)  # type: ignore[arg-type]


def test_a_misspelt_metric_is_hinted_at(tmp_path: Path) -> None:
    log = collapsing(tmp_path / "bad.jsonl")
    write(
        tmp_path / "rlwatch.toml", RULE.format(name="mine", when="above", value=1, more="").replace("kl/ref", "kl/reff")
    )
    result = RUNNER.invoke(app, ["analyze", str(log)])
    assert "rlwatch: the rule mine looks at kl/reff, and rlwatch has no such metric but kl/ref?" in result.stderr


def test_the_html_report_says_it_too() -> None:
    pytest.importorskip("plotly")
    records = [StepRecord(s, 0.0, {"reward/mean": 0.8, "kl/ref": 1.0}) for s in range(1, 40)]
    rule = {**KL, "message": "<b>{value}</b>"}
    page = html_report([analyze_run(Run("r", "r", "jsonl", None, records), settings=Settings.of({"rule": [rule]}))], {})
    assert "Set by the settings given" in page
    assert "kl-too-high, a rule of your own" in page
    assert "<b>1.0</b>" not in page


# --- rules in Python


def test_the_rule_in_the_docs_runs_live_and_after_the_fact(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    [example] = re.findall(r"```python\n(from rlwatch\.rules import.*?)```", page, re.DOTALL)
    space: dict[str, Any] = {}
    exec(example, space)
    told: list[Alert] = []
    with rlwatch.Monitor(tmp_path, name="a", rules=[space["ShortAnswers"]], on_alert=told.append) as monitor:
        for step in range(1, 60):
            monitor.step(step, **{"length/mean": 100.0 if step < 20 else 4.0})
    live = [(a.rule, a.step, a.message) for a in told if a.rule == "short-answers"]
    assert live == [("short-answers", 29, "completions have 4.0 tokens, under 10")]
    [analysis] = rlwatch.analyze(tmp_path / "a", rules=[space["ShortAnswers"]])
    assert [(a.rule, a.step, a.message) for a in analysis.alerts if a.rule == "short-answers"] == live
    [without] = rlwatch.analyze(tmp_path / "a")
    assert "rlwatch.analyze(path, rules=[...])" in without.unchecked["short-answers"]


def test_a_rule_that_was_made_is_copied_for_each_run_and_gets_its_configuration() -> None:
    mine = Odd(settings={"limit": 0.1})
    made = Settings().with_rules([mine])
    one, two = made.rules({"a": 1})[-1], made.rules({"a": 2})[-1]
    assert isinstance(one, Odd)
    one.update(StepRecord(1, 0.0, {"loss": 1.0}))
    assert (one.seen, two.seen, mine.seen) == (1, 0, 0)  # type: ignore[attr-defined]
    assert (one.limit, one.config, two.config, mine.config) == (0.1, {"a": 1}, {"a": 2}, {})


class NoUpdate(Rule):
    name = "no-update"


class NoName(Odd):
    name = ""


class Uncopied(Odd):
    name = "uncopied"

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("never")


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ([Odd, Odd], "a rule 'odd' already"),
        ([Odd, Odd()], "a rule 'odd' already"),
        ([type("T", (Odd,), {"name": "truncation"})], "a rule 'truncation' already"),
        ([3], "takes classes made from rlwatch.rules.Rule, and not 3"),
        ([dict], "takes classes made from rlwatch.rules.Rule"),
        ([NoUpdate], "NoUpdate has no update"),
        ([NoName], "NoName has no name"),
        ([Uncopied()], "cannot be copied for each run"),
    ],
)
def test_what_is_no_rule_is_an_error_before_the_training(rules: list[Any], said: str, tmp_path: Path) -> None:
    for give in (lambda: rlwatch.Monitor(tmp_path, rules=rules), lambda: Chooser(rules=rules)):
        with pytest.raises(ValueError, match=said):
            give()
    assert list(tmp_path.iterdir()) == [tmp_path / "cwd"]


def test_a_rule_that_fails_is_left_out_and_the_others_go_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = collapsing(tmp_path / "bad.jsonl")
    with caplog.at_level(logging.ERROR, "rlwatch"):
        [analysis] = rlwatch.analyze(log, rules=[Fails])
    assert analysis.unchecked["fails"] == (
        "it failed at step 10 and was left out from there on (ZeroDivisionError: on purpose)"
    )
    assert "reward-collapse" in {alert.rule for alert in analysis.alerts}
    [record] = [r for r in caplog.records if "fails" in r.getMessage()]
    assert record.exc_info is not None


def test_a_rule_that_cannot_be_made_is_left_out(tmp_path: Path) -> None:
    class Unmade(Odd):
        name = "unmade"

        def __init__(self, config: Any = None, settings: Any = None) -> None:
            raise KeyError("lr")

    [analysis] = rlwatch.analyze(collapsing(tmp_path / "bad.jsonl"), rules=[Unmade])
    assert "KeyError" in analysis.unchecked["unmade"]
    with rlwatch.Monitor(tmp_path / "runs", name="a", rules=[Unmade]) as monitor:
        monitor.step(1, loss=1.0)
    assert read_info(tmp_path / "runs" / "a")["faults"][0]["where"] == "the rule unmade"


# --- live


def test_live_and_after_the_fact_are_one(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    write(
        root / "rlwatch.toml",
        '[rules.reward-collapse]\nat_most = "warning"\n'
        + RULE.format(name="kl-too-high", when="above", value=0.5, more="over = 5"),
    )
    with rlwatch.Monitor(root, name="a") as monitor:
        for step in range(1, 150):
            values = row(step)
            monitor.step(
                step, loss=0.01, **{"reward/mean": values["reward"], "kl/ref": values["kl"], "entropy/mean": 0.5}
            )
    told = [(a.rule, a.severity, a.state, a.step, a.message) for a in read_alerts(root / "a").items]
    assert {rule for rule, *_ in told} == {"reward-collapse", "kl-too-high"}
    [analysis] = rlwatch.analyze(root / "a")
    assert [(a.rule, a.severity, a.state, a.step, a.message) for a in analysis.changes] == told
    info = read_info(root / "a")["settings"]
    assert info["from"] == str(root / "rlwatch.toml")

    (root / "rlwatch.toml").unlink()  # the run remembers
    [again] = rlwatch.analyze(root / "a")
    assert again.settings.source == "the run's run.json"
    assert [(a.rule, a.severity, a.state, a.step, a.message) for a in again.changes] == told
    [plain] = rlwatch.analyze(root / "a", settings={})
    assert "kl-too-high" not in {a.rule for a in plain.alerts}


def test_a_monitor_that_was_given_something_wrong_raises_before_the_training(tmp_path: Path) -> None:
    for wrong in ({"ruls": {}}, tmp_path / "none.toml", 3):
        with pytest.raises(ValueError, match=r"ruls|none\.toml|takes a path"):
            rlwatch.Monitor(tmp_path / "runs", settings=wrong)  # type: ignore[arg-type]
    assert not (tmp_path / "runs").exists()


def test_a_wrong_file_that_was_only_found_ends_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "runs" / "rlwatch.toml", "[ruls]")
    with rlwatch.Monitor(tmp_path / "runs", name="a", rules=[Odd]) as monitor:
        monitor.step(1, loss=1.0)
    said = capsys.readouterr().out
    assert said.count("ruls: there is no such key: did you mean 'rules'?") == 1
    assert "the defaults hold" in said
    info = read_info(tmp_path / "runs" / "a")
    assert "ruls" in info["settings"]["refused"]
    assert [a.rule for a in read_alerts(tmp_path / "runs" / "a").items] == ["odd"]


def test_a_rule_that_fails_live_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.ERROR, "rlwatch"),
        rlwatch.Monitor(tmp_path, name="a", rules=[Fails, Odd], settings={"rule": [KL]}) as monitor,
    ):
        for step in range(1, 40):
            monitor.step(step, loss=1.0, **{"kl/ref": 1.0})
    [fault] = read_info(tmp_path / "a")["faults"]
    assert (fault["where"], fault["count"]) == ("the rule fails", 1)
    assert [a.rule for a in read_alerts(tmp_path / "a").items] == ["odd", "kl-too-high"]
    assert sum("the rule fails" in r.getMessage() for r in caplog.records) == 1


def test_stop_on_knows_own_rules(tmp_path: Path) -> None:
    monitor = rlwatch.Monitor(tmp_path, rules=[Odd], settings={"rule": [KL]}, stop_on=["odd", "kl-too-high"])
    monitor.step(1, loss=1.0)
    assert monitor.should_stop
    monitor.close()
    with pytest.raises(ValueError, match="kl-too-low"):
        rlwatch.Monitor(tmp_path, settings={"rule": [KL]}, stop_on=["kl-too-low"])


def test_the_callback_takes_the_same(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    rlwatch.RLWatchCallback(tmp_path, settings={"rule": [KL]}, rules=[Odd], stop_on=["kl-too-high"])
    with pytest.raises(ValueError, match="did you mean 'rules'"):
        rlwatch.RLWatchCallback(tmp_path, settings={"ruls": {}})
    with pytest.raises(ValueError, match="already"):
        rlwatch.RLWatchCallback(tmp_path, rules=[Odd, Odd])


def test_a_training_is_judged_by_them_and_goes_on_when_a_rule_fails(make_trainer: Any, tmp_path: Path) -> None:
    always = {"name": "loss-is-there", "metric": "reward/mean", "when": "above", "value": -9, "over": 3}
    watcher = rlwatch.RLWatchCallback(tmp_path / "runs", settings={"rule": [always]}, rules=[Fails])
    make_trainer(callbacks=[watcher], max_steps=12, gradient_accumulation_steps=1).train()
    assert watcher.run_dir is not None
    told = [(a.rule, a.step) for a in read_alerts(watcher.run_dir).items]
    assert ("loss-is-there", 3) in told
    info = read_info(watcher.run_dir)
    assert [fault["where"] for fault in info["faults"]] == ["the rule fails"]
    assert info["settings"]["python"] == ["fails"]
    [again] = rlwatch.analyze(watcher.run_dir, rules=[Fails])
    assert [(a.rule, a.step) for a in again.changes] == told


def test_a_followed_log_is_judged_by_them_too(tmp_path: Path) -> None:
    from rlwatch.readers import Options

    told: list[Alert] = []
    made = Settings.of({"rule": [KL]})
    log = collapsing(tmp_path / "bad.jsonl", 120)
    follower = Follower(log, Options(), into=tmp_path / "runs", tell=told.append, settings=made)
    follower.look()
    follower.finish()
    assert [a.step for a in told if a.rule == "kl-too-high" and a.state is AlertState.FIRING] == [103]
    assert follower.run_dir is not None
    assert read_info(follower.run_dir)["settings"]["rule"][0]["name"] == "kl-too-high"
