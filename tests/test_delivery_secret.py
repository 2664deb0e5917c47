"""A webhook, a URL or a token is in no text."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from delivery import ALERT, SECRET, Hook, everything
from rlwatch.alerts import configured
from rlwatch.alerts.channel import Message, Refused, TryLater
from rlwatch.alerts.outbox import Outbox
from rlwatch.capture.guard import Guard
from rlwatch.capture.session import Session
from rlwatch.cli import app
from rlwatch.runs.records import StepRecord

pytest_plugins = ["delivery_fixtures"]
pytestmark = pytest.mark.usefixtures("clean")


WAYS = {
    "slack": ("RLWATCH_SLACK_WEBHOOK", f"http://127.0.0.1:9/{SECRET}", f"htp:/{SECRET}\n{SECRET}"),
    "apprise": (configured.APPRISE, f"json://127.0.0.1:9/{SECRET}", f"jsno://{SECRET}"),
}
"""A channel → the variable that holds its secret, an address where nobody listens, one that makes no sense."""


@pytest.mark.parametrize(
    ("way", "doing"),
    [
        *(("slack", doing) for doing in ("ok", "500", "404", "400", "302", "drop", "absent", "bad")),
        *(("apprise", doing) for doing in ("ok", "404", "drop", "absent", "bad")),
    ],
)
def test_the_secret_is_in_no_text(
    hook: Hook,
    tmp_path: Path,
    way: str,
    doing: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    if way == "apprise":
        pytest.importorskip("apprise")
    variable, *others = WAYS[way]
    urls = dict(zip(("absent", "bad"), others, strict=True))
    monkeypatch.setenv(
        variable, urls.get(doing, hook.url if way == "slack" else hook.url.replace("http://", "json://"))
    )
    monkeypatch.setattr(Outbox.close, "__defaults__", (0.3,))
    hook.doings.extend([] if doing in urls else [doing] * 50)
    guard = Guard()
    session = Session(tmp_path, "night", {}, guard)
    for step in (1, 2, 3):
        session.step(StepRecord(step, time.time(), {"loss": float("nan") if step > 1 else 0.5}))
    session.close()
    channel = configured.channels()[0]
    problem: Exception | None = None
    try:
        channel.send([Message((ALERT,))])
    except (TryLater, Refused) as error:
        problem = error
    assert (problem is not None) == (doing != "ok")
    assert problem is None or (problem.__context__ is None and problem.__cause__ is None)
    result = CliRunner().invoke(app, ["alerts", "test"])
    assert result.exit_code == int(doing != "ok")
    said = capfd.readouterr()
    texts = [
        everything(tmp_path),
        caplog.text,
        said.out,
        said.err,
        repr(problem),
        repr(channel),
        str(channel),
        result.output,
        repr(configured.Delivery.read()),
    ]
    assert (tmp_path / "night" / "outbox").is_dir()
    assert not [text for text in texts if SECRET in text]
    assert (doing == "ok") or guard.faults
