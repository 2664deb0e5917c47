"""`trainer_state.json`: what transformers' Trainer, and so TRL, keeps in every checkpoint.

{"best_metric": null, "global_step": 200, "log_history": [{"epoch": 0.1, "loss": 0.02, "step": 5}, ...]}
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlwatch.readers.fields import Rows
from rlwatch.readers.jsontext import document
from rlwatch.readers.rows import Log, Row
from rlwatch.readers.source import Source, UnreadableError

if TYPE_CHECKING:
    from rlwatch.readers.loading import Options

NAME = "trainer_state.json"

_CONFIG = (
    "max_steps",
    "num_train_epochs",
    "logging_steps",
    "eval_steps",
    "save_steps",
    "train_batch_size",
    "num_generations",
)


def sniff(source: Source) -> bool:
    """An object with a `log_history`."""
    head = source.head_text.lstrip()
    return head.startswith("{") and '"log_history"' in head


def read(source: Source, options: Options) -> list[Log]:
    """Its log, and what it says of the configuration.

    Raises:
        UnreadableError: It is broken, or has no log.
    """
    state, note = document(source)
    history = state.get("log_history") if isinstance(state, dict) else state
    if not isinstance(history, list) or not any(isinstance(entry, dict) for entry in history):
        raise UnreadableError("its log_history is empty")
    make = Rows()
    rows: list[Row] = [make.row(entry) for entry in history if isinstance(entry, dict)]
    info = _info(state) if isinstance(state, Mapping) else {}
    return [Log(rows, "trl-state", name=_name(source.path), info=info, notes=[note] if note else [])]


def sniff_directory(path: Path) -> bool:
    """A checkpoint, or a folder of checkpoints."""
    return _latest(path) is not None


def read_directory(path: Path, options: Options) -> list[Log]:
    """The log of the latest checkpoint, which holds those of the earlier ones.

    Raises:
        UnreadableError: It is broken, or has no log.
    """
    found = _latest(path)
    if found is None:
        raise UnreadableError("there is no trainer_state.json in it")
    return read(Source(found), options)


def _latest(path: Path) -> Path | None:
    if (path / NAME).is_file():
        return path / NAME
    found = [(_number(folder), folder / NAME) for folder in path.glob("checkpoint-*") if (folder / NAME).is_file()]
    return max(found)[1] if found else None


def _number(folder: Path) -> int:
    digits = folder.name.rpartition("-")[2]
    return int(digits) if digits.isdecimal() else -1


def _name(path: Path) -> str | None:
    """The folder that the training was saved to, for all of these files have one name."""
    if path.name.partition(".gz")[0].partition(".zst")[0] != NAME:
        return None
    folder = path.absolute().parent
    return (folder.parent if folder.name.startswith("checkpoint-") else folder).name or None


def _info(state: Mapping[str, Any]) -> dict[str, Any]:
    config = {key: _whole(state[key]) for key in _CONFIG if isinstance(state.get(key), (int, float))}
    step = state.get("global_step")
    return {"config": config, "global_step": _whole(step)} if isinstance(step, (int, float)) else {"config": config}


def _whole(value: float) -> float | int:
    return int(value) if isinstance(value, float) and value.is_integer() else value
