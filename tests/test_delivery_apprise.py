"""apprise: the real library, to a server on this machine; its URLs are secrets, and each is a channel of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from delivery import ALERT, PATIENCE, SECRET, Hook, Notes, ends, open_box, waiting
from rlwatch.alerts import apprise_process, configured
from rlwatch.alerts.apprise import Apprise
from rlwatch.alerts.channel import Message
from rlwatch.alerts.outbox import Outbox

pytest_plugins = ["delivery_fixtures"]
pytestmark = pytest.mark.usefixtures("clean")


def url_of(hook: Hook) -> str:
    return hook.url.replace("http://", "json://")


def test_a_message_says_the_same_as_elsewhere(hook: Hook) -> None:
    Apprise(url_of(hook), page="http://box:8050").send([Message((ends("truncation"),)), Message((ALERT,))])
    Apprise(url_of(hook)).send([Message((ends(),))])
    bad, over = hook.arrived
    assert (bad["title"], bad["type"]) == ("🔴 CRITICAL · dead-groups · night-run and 1 more", "failure")
    assert bad["message"].startswith("🔴 CRITICAL · dead-groups · night-run\nWhat: 92% of the groups are dead")
    assert "🟢 RESOLVED · truncation · night-run" in bad["message"]
    assert bad["message"].endswith("Page: http://box:8050/run/night-run/alert/dead-groups/188")
    assert (over["title"], over["type"]) == ("🟢 RESOLVED · dead-groups · night-run", "success")
    assert over["message"].startswith("What: 92%")


def test_it_arrives_once_through_errors_and_dropped_connections(hook: Hook, tmp_path: Path) -> None:
    hook.doings.extend(["429", "500", "drop"])
    notes = Notes()
    box = open_box(Apprise(url_of(hook)), tmp_path, notes=notes)
    box.put(ALERT)
    hook.wait(lambda: len(hook.arrived) == 1)
    assert box.close() == 0
    assert (len(hook.times), len(hook.arrived), waiting(tmp_path), notes) == (4, 1, [], [])


def test_where_one_url_fails_the_other_is_not_told_twice(hook: Hook, tmp_path: Path) -> None:
    other = Hook()
    other.doings.extend(["500", "500"])
    channels = configured.channels({configured.APPRISE: f"{url_of(hook)}, {url_of(other)}"})
    (tmp_path / "run").mkdir()
    box = Outbox(channels, tmp_path / "run" / "outbox", note=Notes(), together=0.0, first_wait=0.02)
    box.put(ALERT)
    other.wait(lambda: len(other.arrived) == 1)
    assert box.close() == 0
    other.close()
    assert (len(hook.times), len(other.times)) == (1, 3)
    names = sorted(path.suffixes[-2] for path in (tmp_path / "run" / "outbox" / "sent").iterdir())
    assert names == [".apprise-json", ".apprise-json-2"]


def test_what_cannot_be_sent_waits_for_other_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = Notes()
    box = open_box(Apprise(f"nosuchthing://{SECRET}"), tmp_path / "run", notes=notes)
    box.put(ALERT)
    box.close()
    (tmp_path / "apprise.py").write_text("raise ImportError('not here')")
    monkeypatch.syspath_prepend(tmp_path)
    box = open_box(Apprise(f"json://127.0.0.1/{SECRET}"), tmp_path / "run", notes=notes)
    box.close()
    assert notes == [
        "sending an alert through apprise: apprise does not know this kind of URL",
        "sending an alert through apprise: apprise is not installed: pip install 'rlwatch-monitor[apprise]'",
    ]
    assert len(waiting(tmp_path / "run")) == 1


def test_a_sending_ends_with_whoever_wanted_it(hook: Hook) -> None:
    """Else it would arrive after a kill, and again at the next start."""
    process = subprocess.Popen([sys.executable, "-m", apprise_process.__name__], stdin=subprocess.PIPE)
    assert process.stdin is not None
    pipe = process.stdin

    def die() -> str:
        pipe.close()  # as the end of the process that holds it does
        process.wait(PATIENCE)
        return "drop"

    hook.doings.append(die)
    order = {"url": url_of(hook), "title": "t", "body": "b", "kind": "info"}
    pipe.write(json.dumps(order).encode() + b"\n")
    pipe.flush()
    hook.wait(lambda: len(hook.times) == 1)
    assert process.wait(PATIENCE) == apprise_process.NOT_SENT
    assert hook.arrived == []
