"""The fixtures that the tests of delivery share: a plugin, for pytest takes fixtures from nowhere else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from delivery import Hook
from rlwatch.alerts import configured


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """No channel but those that a test configures, and no proxy in between."""
    for name in configured.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def hook(clean: None) -> Iterator[Hook]:
    hook = Hook()
    yield hook
    hook.close()
