"""Weights & Biases' own log of a run, `run-<id>.wandb`: written in online and offline mode, read here without wandb.

A record is a protocol buffer; the numbers of its fields below are those of wandb_internal.proto.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

from rlwatch.readers.loading import Options
from rlwatch.readers.rows import NOTHING, Log, Row, number, step_of
from rlwatch.readers.settings import simple_settings
from rlwatch.readers.source import Source, UnreadableError
from rlwatch.readers.tracker import tracker_log
from rlwatch.readers.wandb_log import HEADER, MAGIC, records
from rlwatch.readers.wire import BYTES, WireError, field_at, fields, messages, signed, text
from rlwatch.runs.jsonl import decode

_HISTORY, _CONFIG, _RUN, _EXIT = 2, 5, 17, 18


def sniff(source: Source) -> bool:
    """Whether it begins as a .wandb file does."""
    return source.head.startswith(MAGIC)


def read(source: Source, options: Options) -> list[Log]:
    """The run that it holds."""
    if not source.head.startswith(HEADER):
        return [_by_wandb(source)]
    notes: list[str] = []
    found = _Found()
    try:
        with source.open() as file:
            for record in records(file, notes):
                found.add(record)
    except WireError as error:
        notes.append(f"it is not read to its end: a record that does not say what wandb's say ({error})")
    if not found.rows and notes:
        raise UnreadableError(f"it holds no metrics; {notes[0]}")
    if not found.rows:
        raise UnreadableError("it is the file of a wandb run that logged nothing")
    return [found.log(notes)]


class _Found:
    """What the records have said so far."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.info: dict[str, Any] = {}
        self.name: str | None = None
        self._config: dict[str, Any] = {}
        self._names: dict[bytes, str] = {}

    def add(self, record: bytes) -> None:
        """One more record.

        Raises:
            WireError: It is none.
        """
        for kind, _, value in fields(record):
            if not isinstance(value, bytes):
                continue
            if kind == _HISTORY:
                self._history(value)
            elif kind == _RUN:
                self._run(value)
            elif kind == _CONFIG:
                self._configure(value)
            elif kind == _EXIT:
                self.info["exit_code"] = _first_int(value)

    def log(self, notes: list[str]) -> Log:
        """All of it."""
        config = simple_settings({key: value for key, value in self._config.items() if key != "_wandb"})
        info = {**self.info, **({"config": config} if config else {})}
        return tracker_log(self.rows, format="wandb", name=self.name, info=info, notes=notes)

    def _run(self, data: bytes) -> None:
        self.name = text(data, 8) or text(data, 1) or None
        found = {"id": text(data, 1), "project": text(data, 3), "host": text(data, 13), "group": text(data, 6)}
        self.info.update({key: value for key, value in found.items() if value})
        for config in messages(data, 4):
            self._configure(config)

    def _configure(self, data: bytes) -> None:
        for item in messages(data, 1):
            name, value = _item(item)
            try:
                self._config[name] = decode(value)
            except (ValueError, RecursionError):
                continue

    def _history(self, data: bytes) -> None:
        items: dict[str, bytes] = {}
        counter = None
        at = 0
        while at < len(data):
            value_at, next_at = _plain_item(data, at)
            if next_at:
                key = data[at + 4 : value_at - 3]
                name = self._names.get(key)
                if name is None:
                    name = self._names[key] = key.decode("utf-8", errors="replace")
                items[name] = data[value_at:next_at]
                at = next_at
                continue
            field, _, value, at = field_at(data, at)
            if field == 1 and isinstance(value, bytes):
                name, json_value = _item(value)
                items[name] = json_value
            elif field == 2 and isinstance(value, bytes):
                counter = _first_int(value)
        self.rows.append(_row(_decoded(items), counter))


def _plain_item(data: bytes, at: int) -> tuple[int, int]:
    """Where the value of an item at a place begins and ends; zeros where it is not of the kind that nearly all are.

    That kind is a short name, nested in nothing, and a short text.
    """
    head = data[at : at + 4]
    if len(head) < 4 or head[0] != 0x0A or head[1] > 0x7F or head[2] not in (0x0A, 0x12) or head[3] > 0x7F:
        return 0, 0
    end, value = at + 2 + head[1], at + 7 + head[3]
    if end > len(data) or value > end or data[value - 3 : value - 1] != b"\x82\x01" or data[value - 1] != end - value:
        return 0, 0
    return value, end


def _item(data: bytes) -> tuple[str, bytes]:
    """A name and its JSON."""
    names, value = [], b""
    for field, kind, found in fields(data):
        if kind == BYTES and isinstance(found, bytes):
            if field in (1, 2) and found:
                names.append(found.decode("utf-8", errors="replace"))
            elif field == 16:
                value = found
    return ".".join(names), value


def _first_int(data: bytes) -> int:
    """The number in field 1; 0, which is not written, where there is none."""
    return next((signed(value) for number, _, value in fields(data) if number == 1 and isinstance(value, int)), 0)


def _decoded(items: dict[str, bytes]) -> dict[str, Any]:
    """All values of a row at once; one by one where one of them is no JSON."""
    try:
        values = decode(b"[" + b",".join(items.values()) + b"]")
        if len(values) == len(items):
            return dict(zip(items, values, strict=True))
    except (ValueError, RecursionError):
        pass
    found = {}
    for name, value in items.items():
        try:
            found[name] = decode(value)
        except (ValueError, RecursionError):
            continue
    return found


def _row(data: dict[str, Any], counter: int | None) -> Row:
    """A row of what is a number, or None. Of a histogram, a table or an image nothing is."""
    media = tuple(name[:-5] for name in data if name.endswith("._type"))
    if media:
        data = {name: value for name, value in data.items() if not name.startswith(media)}
    values = _flat_numbers(data)
    step = step_of(values.pop("_step", None))[0]
    time = values.pop("_timestamp", None)
    values.pop("_runtime", None)
    return Row(values, counter if step is None else step, time)


def _flat_numbers(data: dict[str, Any], before: str = "", depth: int = 0) -> dict[str, float | None]:
    """Numbers; that of a dict in a dict is `outer.inner`."""
    found: dict[str, float | None] = {}
    for name, value in data.items():
        if type(value) is float:
            found[before + name] = value
        elif isinstance(value, dict):
            if "_type" not in value and depth < 8:
                found.update(_flat_numbers(value, f"{before}{name}.", depth + 1))
        elif (result := number(value)) is not NOTHING:
            found[before + name] = result
    return found


def _by_wandb(source: Source) -> Log:
    """Of a version that is not known here: what wandb's own command makes of it, where that is installed."""
    command = shutil.which("wandb")
    if command is None or not source.path.is_file():
        raise UnreadableError("it is a .wandb file of a version that rlwatch does not know, and wandb is not installed")
    rows = []
    try:
        arguments = [command, "leet", "inspect", "--json", str(source.path)]
        done = subprocess.run(arguments, capture_output=True, timeout=120, check=True)
        for line in done.stdout.splitlines():
            record = json.loads(line) if line.startswith(b"{") else {}
            if record.get("type") == "history":
                rows.append(_row(record["history"]["item"], None))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, subprocess.SubprocessError) as error:
        raise UnreadableError("it is a .wandb file of a version that neither rlwatch nor wandb can read") from error
    return tracker_log(rows, format="wandb", notes=["read by the wandb command: its version is not known to rlwatch"])
