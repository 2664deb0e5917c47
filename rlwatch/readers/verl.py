"""verl: a line a step on the console, or its FileLogger's lines of JSON.

    (TaskRunner pid=46086) step:1 - actor/entropy:0.147 - actor/pg_loss:np.float64(-0.00014) - critic/score/mean:0.133
    {"step": 1, "data": {"actor/entropy": 0.345, "critic/score/mean": -0.047}}

On the console anything stands in between: colours, NULs, validation samples, and before it the configuration, as Python
prints a dict. That is read where it is whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlwatch.readers.console import plain
from rlwatch.readers.dicts import parse
from rlwatch.readers.fields import Rows, check_count
from rlwatch.readers.jsontext import as_text
from rlwatch.readers.jsontext import line as json_line
from rlwatch.readers.rows import Log, Row, step_of
from rlwatch.readers.settings import simple_settings
from rlwatch.readers.source import Source, UnreadableError
from rlwatch.runs.aliases import RAW

if TYPE_CHECKING:
    from rlwatch.readers.loading import Options

CONFIG_LINES = 5000
"""A configuration is printed on fewer lines than this."""

_ACTOR = "actor_rollout_ref.actor."
_STEP = re.compile(r"(?:^|[\s)\]])step:(\d{1,15}) - (?=\S)")
_SIGNS = re.compile(
    r"step:\d{1,15} - [\w./@() -]{1,100}:|['\"]?actor_rollout_ref['\"]?\s*:|(?:TaskRunner|main_task) pid="
)
_FILE_LOGGER = re.compile(r'\s*\{\s*"step"\s*:\s*\d+\s*,\s*"data"\s*:\s*\{')
_CONFIG = re.compile(r"\{\s*'[a-z_]+'\s*:\s*\{")
_PID = re.compile(r"\(([^()]{0,80}pid=\d+[^()]{0,80})\)")


def sniff(source: Source) -> bool:
    """A line of a step, or what verl prints before the first one."""
    text = source.head_text
    return not source.is_binary and (_FILE_LOGGER.match(text) is not None or _SIGNS.search(text) is not None)


def read(source: Source, options: Options) -> list[Log]:
    """Its steps.

    Raises:
        UnreadableError: No step is in it.
    """
    log = _file_logger(source) if _FILE_LOGGER.match(source.head_text) else _console(source)
    if not log.rows:
        raise UnreadableError("there is no line of a step in it")
    log.more_names = _doubtful(log.info.get("config", {}), log.notes)
    return [log]


def _file_logger(source: Source) -> Log:
    rows: list[Row] = []
    make, log, broken = Rows(), Log(rows, "verl-jsonl", framework="verl"), 0
    for line in source.utf8_lines():
        value = json_line(line)
        if value is None and not as_text(line).strip():
            continue
        data = value.get("data") if isinstance(value, dict) else None
        if isinstance(data, dict):
            row = make.row(data)
            row.step = step_of(value.get("step"))[0]
            rows.append(row)
        elif value != {}:
            broken += 1
        check_count(len(rows))
    if broken:
        log.notes.append(f"{broken} line{'s' * (broken > 1)} without a step's data left out")
    return log


def _console(source: Source) -> Log:
    rows: list[Row] = []
    make, log, config = Rows(), Log(rows, "verl-console", framework="verl"), _Config()
    for text in source.lines():
        if "step:" not in text:
            if not log.rows and config.wanted:
                config.line(text)
            continue
        text = plain(text)
        match = _STEP.search(text)
        if match is None:
            continue
        data: dict[str, Any] = {}
        for entry in text[match.end() :].split(" - "):
            name, colon, value = entry.strip().rpartition(":")
            if colon and name:
                data[name] = value
        if data:
            row = make.row(data)
            row.step = int(match[1])
            rows.append(row)
            check_count(len(rows))
    if config.found:
        log.info["config"] = simple_settings(config.found)
    return log


class _Config:
    """The first dict of dicts on the console, put together from the lines of one process."""

    def __init__(self) -> None:
        self.found: dict[str, Any] | None = None
        self.wanted = True
        self._lines: list[str] = []
        self._process: str | None = None
        self._depth = 0

    def line(self, text: str) -> None:
        """One line before the first step."""
        named = _PID.search(text[:200]) if "pid=" in text else None
        process = named[1] if named else None
        text = plain(text)
        if "pid=" in text:  # another process wrote on, before this one had ended its line
            text = _PID.split(text)[0]
        if not self._lines:
            match = _CONFIG.search(text)
            if match is None:
                return
            text, self._process = text[match.start() :], process
        elif process != self._process:
            return
        self._lines.append(text)
        self._depth += text.count("{") - text.count("}")
        if self._depth <= 0:
            config = parse("\n".join(self._lines))
            if config and "actor_rollout_ref" in config:
                self.found, self.wanted = config, False
            self._lines, self._depth = [], 0
        elif len(self._lines) > CONFIG_LINES:
            self.wanted = False


def _doubtful(config: Mapping[str, Any], notes: list[str]) -> dict[str, str]:
    """Names that mean something else with this configuration: they stay raw."""
    raw = {}
    how = config.get(f"{_ACTOR}loss_agg_mode", "token-mean")
    if how != "token-mean":
        raw["actor/entropy"] = f"loss_agg_mode is {how}: actor/entropy is no mean over tokens"
    how = config.get(f"{_ACTOR}kl_loss_type", "low_var_kl")
    if how not in ("low_var_kl", "k3", "kl", "k1"):
        raw["actor/kl_loss"] = f"kl_loss_type is {how}: actor/kl_loss is no estimate of the divergence"
    notes += raw.values()
    return {name: RAW + name for name in raw}
