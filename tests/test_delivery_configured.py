"""Which channels there are, from the environment and from settings, and `rlwatch alerts test`."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from delivery import SECRET, Hook, Notes
from rlwatch.alerts.configured import Delivery, channels
from rlwatch.capture.guard import Guard
from rlwatch.capture.session import Session
from rlwatch.cli import app
from rlwatch.runs.records import Severity

pytest_plugins = ["delivery_fixtures"]
pytestmark = pytest.mark.usefixtures("clean")

WANDB = "wandb: not tried: it goes through the run that is active in the training; try one with --wandb PROJECT\n"


def test_each_channel_is_tried_and_said(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    none = CliRunner().invoke(app, ["alerts", "test"])
    assert none.exit_code == 2
    monkeypatch.setenv("SLACK_WEBHOOK_URL", hook.url)
    assert CliRunner().invoke(app, ["alerts", "test"]).output == f"slack: sent\n{WANDB}"
    assert "this is a test" in hook.texts()[0]
    monkeypatch.setenv("RLWATCH_ALERT_COMMAND", f"{sys.executable} -c 'raise SystemExit(4)' {SECRET}")
    monkeypatch.setenv("RLWATCH_APPRISE_URLS", f"{hook.url.replace('http', 'json')} json://127.0.0.1:9/{SECRET}")
    monkeypatch.setattr(hook, "texts", lambda: [body.get("text") or body["message"] for body in hook.arrived])
    failed = CliRunner().invoke(app, ["alerts", "test"])
    assert failed.exit_code == 1
    program = Path(sys.executable).name
    assert failed.output == (
        f"slack: sent\ncommand: not sent: {program} ended with exit code 4\napprise-json: sent\n"
        f"apprise-json-2: not sent: apprise could not send it\n{WANDB}"
    )
    assert all("this is a test" in text for text in hook.texts())


def test_nothing_configured_starts_nothing(tmp_path: Path) -> None:
    session = Session(tmp_path, "night", {}, Guard())
    assert not [thread for thread in threading.enumerate() if thread.name == "rlwatch-alerts"]
    assert not (tmp_path / "night" / "outbox").exists()
    session.close()


SETTINGS: dict[str, Any] = {
    "slack": {"webhook_env": "TEAM_HOOK", "webhook": f"https://file/{SECRET}"},
    "command": f"page_me {SECRET}",
    "apprise": {"urls": [f"ntfy://{SECRET}", f"mailto://me:{SECRET}@x.y?to=a@b.c,d@e.f"]},
    "page_url": "http://box:8050",
    "repeat": 60,
    "min_severity": "critical",
}


def test_a_settings_file_configures_the_same_and_the_environment_wins(tmp_path: Path) -> None:
    found = Delivery.read(SETTINGS, {})
    assert (found.slack, found.page, found.repeat) == (f"https://file/{SECRET}", "http://box:8050", 60.0)
    assert [channel.name for channel in found.channels()] == [
        "slack",
        "command",
        "apprise-ntfy",
        "apprise-mailto",
        "wandb",
    ]
    assert {channel.least for channel in found.channels()} == {Severity.CRITICAL}
    assert SECRET not in repr(found)
    team = {"TEAM_HOOK": "https://team", "SLACK_WEBHOOK_URL": "https://shell"}
    assert Delivery.read(SETTINGS, team).slack == "https://team"
    ours = Delivery.read(
        SETTINGS, {**team, "RLWATCH_SLACK_WEBHOOK": "https://ours", "RLWATCH_APPRISE_URLS": "json://a"}
    )
    assert (ours.slack, ours.apprise) == ("https://ours", ("json://a",))
    box = Delivery.read({"repeat": 60, "wandb": False}, {"RLWATCH_ALERT_COMMAND": "true"}).open(
        None, others=None, note=Notes()
    )
    assert box._repeat == 60.0
    assert [channel.name for channel in box._channels] == ["command"]
    box.close()


def test_each_channel_has_its_own_least_severity_where_nothing_is_said(hook: Hook) -> None:
    found = channels(
        {"SLACK_WEBHOOK_URL": hook.url, "RLWATCH_ALERT_COMMAND": "true", "RLWATCH_APPRISE_URLS": "json://a"}
    )
    assert {channel.name: channel.least.value for channel in found} == {
        "slack": "warning",
        "command": "info",
        "apprise-json": "warning",
        "wandb": "info",
    }


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"slak": SECRET}, "there is no setting slak; there is slack, command"),
        ({"slack": SECRET}, "slack is not a table"),
        ({"slack": {"url": SECRET}}, "there is no setting slack.url; there is slack.webhook, slack.webhook_env"),
        ({"slack": {"webhook": [SECRET]}}, "slack.webhook is not a text"),
        ({"apprise": {"urls": SECRET}}, "apprise.urls is not a list of texts"),
        ({"command": [SECRET]}, "command is not a text"),
        ({"wandb": SECRET}, "wandb is not true or false"),
        ({"repeat": SECRET}, "repeat is not a number of seconds"),
        ({"min_severity": SECRET}, "min_severity is not info, warning or critical"),
    ],
)
def test_a_wrong_setting_is_named_and_its_value_is_not(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=f"^{says}") as caught:
        Delivery.read(settings, {})
    assert SECRET not in f"{caught.value!r}"
    assert caught.value.__cause__ is None
