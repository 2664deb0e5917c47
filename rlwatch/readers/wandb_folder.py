"""The folder of one Weights & Biases run: `wandb/run-<time>-<id>/` or `wandb/offline-run-<time>-<id>/`.

Its `run-<id>.wandb` holds the metrics, the settings and the name; `files/` beside it is made from that at the end, and
says about the machine what else there is to know.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rlwatch.readers import wandb_file
from rlwatch.readers.loading import Options
from rlwatch.readers.rows import Log
from rlwatch.readers.settings import simple_settings
from rlwatch.readers.source import Source, UnreadableError

_TOLD = ("program", "python", "gpu", "gpu_count", "cpu_count", "os", "host")


def sniff_directory(path: Path) -> bool:
    """Whether a `run-<id>.wandb` lies in it."""
    try:
        return any(_files(path))
    except OSError:
        return False


def read_directory(path: Path, options: Options) -> list[Log]:
    """The run."""
    try:
        files = _files(path)
    except OSError as error:
        raise UnreadableError(f"it cannot be listed: {error.strerror}") from None
    logs = [log for file in files for log in wandb_file.read(Source(file), options)]
    machine = _machine(path / "files" / "wandb-metadata.json")
    for log in logs:
        log.info = {**machine, **log.info}
    return logs


def _files(path: Path) -> list[Path]:
    return sorted(file for file in path.glob("run-*.wandb") if file.is_file())


def _machine(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > 1 << 20:
            return {}
        data = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError, RecursionError):
        return {}
    return simple_settings({key: data[key] for key in _TOLD if key in data}) if isinstance(data, dict) else {}
