"""The system's Chromium, which the browser tests drive; the fixture `browser` starts it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]

needs_chromium = pytest.mark.skipif(not Path(CHROMIUM).exists(), reason=f"there is no Chromium at {CHROMIUM}")
