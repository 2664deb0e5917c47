"""What a message says, to somebody who has nothing but a phone."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from delivery import ALERT, WARNING, ends, fires
from rlwatch.alerts.channel import Message
from rlwatch.alerts.slack import payload

pytest_plugins = ["delivery_fixtures"]
pytestmark = pytest.mark.usefixtures("clean")


def test_the_message_says_what_since_when_which_number_why_and_what_to_try() -> None:
    message = payload([Message((ALERT,))], page="http://box:8050/", now=ALERT.time + 5)
    assert message["text"].splitlines() == [
        "🔴 CRITICAL · dead-groups · night-run",
        "What: 92% of the groups are dead and not solved",
        "Since: step 188 (seen at step 212)",
        "Number: 0.92 against 0.21",
        "Likely cause: siblings are alike: 1.2 distinct completions a group",
        "Try: raise the temperature [arXiv 2503.14476]",
        "",
        "Page: http://box:8050/run/night-run/alert/dead-groups/188",
    ]
    sections = [block["text"]["text"] for block in message["blocks"]]
    assert sections[0].startswith("*🔴 CRITICAL · dead-groups · night-run*\n*What*: 92%")
    assert sections[1] == "<http://box:8050/run/night-run/alert/dead-groups/188|Open the alert's page>"


def test_an_end_is_told_as_an_end_and_what_changed_often_with_a_count() -> None:
    changes = (fires(), ends(), fires(since=300), ends(since=300))
    lines = payload([Message(changes)], now=ALERT.time + 7200)["text"].splitlines()
    assert lines == [
        "🟢 RESOLVED · dead-groups · night-run",
        "What: 92% of the groups are dead and not solved",
        "When: from step 300 to step 305",
        "Changes: 4 in steps 190 to 309 (fired or grew worse 2, over 2)",
        "Told late: this is of 2025-11-30 10:53 UTC",
    ]


def test_the_worst_stands_first_and_slack_is_not_told_to_call_anybody() -> None:
    calls = replace(fires("entropy-collapse"), message="<!channel> & more", run="night-run")
    message = payload([Message((ends("truncation"),)), Message((fires("kl", WARNING),)), Message((calls,))], now=0.0)
    assert [block["text"]["text"].split(" ·")[0] for block in message["blocks"]] == [
        "*🔴 CRITICAL",
        "*🟡 WARNING",
        "*🟢 RESOLVED",
    ]
    assert "<!" not in json.dumps(message)
    assert "&lt;!channel&gt; &amp; more" in message["text"]


def test_no_message_is_longer_than_slack_takes() -> None:
    long = replace(ALERT, message="x" * 50_000)
    message = payload([Message((replace(long, rule=f"rule-{i}"),)) for i in range(70)], now=0.0)
    assert len(message["text"]) <= 40_000
    assert len(message["blocks"]) == 50
    assert all(len(block["text"]["text"]) <= 3000 for block in message["blocks"])
