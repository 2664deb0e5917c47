"""The whole way once: a real GRPOTrainer that stops learning, its alert on stdout and disk, its page in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from chromium import needs_chromium
from rlwatch import RLWatchCallback
from rlwatch.runs.reader import read_alerts, read_records
from rlwatch.runs.records import AlertState, Severity
from test_dashboard_browser import visit

STEPS = 80


@needs_chromium
def test_a_training_whose_groups_are_dead_shows_it_on_an_open_page(
    browser: Any, make_trainer: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def nobody_solves_it(completions: list[str], **_: Any) -> list[float]:
        return [0.0] * len(completions)

    watcher = RLWatchCallback(tmp_path, name="night-run")
    trainer = make_trainer(
        reward_funcs=[nobody_solves_it],
        callbacks=[watcher],
        max_steps=STEPS,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=1,
    )
    with visit(browser, tmp_path) as user:
        user.open()
        user.wait("document.body.innerText.includes('RLWatchCallback()')")  # an empty folder says what to do
        trainer.train()
        user.page.get_by_role("link", name="night-run").first.click()
        user.wait_for_points("entropy/mean", STEPS)
        user.wait_for_points("groups/failed", STEPS)
        user.wait("document.querySelector('#headline').innerText.startsWith('Not learning since step')")
        user.wait("document.querySelector('#alerts').innerText.includes('dead-groups')")
        user.wait("[...document.querySelectorAll('.annotation-text')].some(a => a.textContent === 'dead-groups')")
        assert user.is_clean()

    assert watcher.run_dir == tmp_path / "night-run"
    records = read_records(watcher.run_dir).items
    assert [record.step for record in records] == list(range(1, STEPS + 1))
    assert all(record.metrics["groups/failed"] == 1 and record.metrics["grad/norm"] == 0 for record in records)
    fired = [a for a in read_alerts(watcher.run_dir).items if a.state is AlertState.FIRING]
    assert [(a.rule, a.severity) for a in fired][-1] == ("dead-groups", Severity.CRITICAL)
    assert fired[-1].run == "night-run"
    out = capsys.readouterr().out
    assert "rlwatch · CRITICAL · dead-groups · run night-run" in out
    assert "100% of the groups are dead and not solved (stuck 0%, failed 100%)" in out
