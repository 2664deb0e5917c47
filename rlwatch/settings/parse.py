"""From a mapping, as TOML gives it, to what was checked: every key known, every value one that makes sense."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rlwatch.detect.adjust import with_lid
from rlwatch.detect.own import LONGEST, WHEN, OwnRuleSpec, check_message, own_rule, value_limits
from rlwatch.detect.rule import Rule
from rlwatch.detect.rules import RULES
from rlwatch.detect.setting import Setting, nearest, settings_of
from rlwatch.runs.metrics import METRICS
from rlwatch.runs.records import Severity
from rlwatch.settings.problems import Path, Problems, shown

TOP = ("rules", "rule", "lints", "alerts")
OWN_KEYS = ("name", "metric", "when", "value", "over", "severity", "message", "advice")
ALERT_KEYS = ("min_severity", "repeat", "page_url", "wandb", "slack", "command", "apprise")
CHANNEL_KEYS = {"slack": ("webhook_env", "webhook"), "command": ("run",), "apprise": ("urls_env", "urls")}
LONGEST_REPEAT = 30 * 86400.0

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,59}")
_DURATION = re.compile(r"\s*(\d+(?:\.\d*)?)\s*(s|sec|m|min|h|d)\s*")
_SECONDS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_FREE = ("reward/", "eval/", "raw/")  # families in which every name may be one


@dataclass(frozen=True)
class Chosen:
    """A rule that is to be used.

    Args:
        rule: Its class, with a lid if it has one.
        values: Setting → number, where they were changed.
    """

    rule: type[Rule]
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Parsed:
    """Settings that make sense.

    Args:
        chosen: The rules, in the order in which they judge.
        silenced: The names of those that are off.
        changed: What differs from the defaults of rlwatch's own rules, flat: `rules.truncation.enabled` → False.
        own: The user's rules, as plain values that can be parsed again.
        alerts: The table `alerts`, times in seconds. It may hold secrets.
        hints: What may not be what was meant, a sentence each.
        lints: Names of lints that are off.
    """

    chosen: tuple[Chosen, ...]
    silenced: tuple[str, ...]
    changed: Mapping[str, Any]
    own: tuple[Mapping[str, Any], ...]
    alerts: Mapping[str, Any]
    hints: tuple[str, ...]
    lints: tuple[str, ...] = ()


def parse(data: object, source: str, text: str = "") -> Parsed:
    """Check settings.

    Args:
        data: The mapping.
        source: What it comes from, for errors.
        text: The text that it was read from, for line numbers.

    Raises:
        SettingsError: Something in it is not known or makes no sense.
    """
    problems = Problems(source, text)
    if not isinstance(data, Mapping):
        problems.add((), f"settings are a table of keys and values, and not {shown(data)}")
        problems.check()
    assert isinstance(data, Mapping)
    reader = _Reader(problems)
    data = reader.table((), data, TOP)
    own = reader.own_rules(data.get("rule"))
    chosen, silenced, changed = reader.rules(data.get("rules", {}), own)
    alerts = reader.alerts(data.get("alerts", {}))
    lints = reader.lints(data["lints"]) if "lints" in data else ()
    problems.check()
    return Parsed(tuple(chosen), tuple(silenced), changed, tuple(map(_plain, own)), alerts, tuple(reader.hints), lints)


class _Reader:
    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.hints: list[str] = []

    def table(self, where: Path, value: object, known: tuple[str, ...] | None = None) -> dict[str, Any]:
        """A table's entries; those that are not known are problems, and left out."""
        if not isinstance(value, Mapping):
            self.problems.add(where, f"has to be a table, and is {shown(value)}")
            return {}
        found = {}
        for key, entry in value.items():
            if not isinstance(key, str):
                self.problems.add(where, f"a key has to be a text, and is {shown(key)}")
            elif known is not None and key not in known:
                self.problems.add((*where, key), f"there is no such key{_nearest(key, known)}")
            else:
                found[key] = entry
        return found

    def text(self, where: Path, value: object, *, empty: bool = False) -> str:
        if not isinstance(value, str) or not (value.strip() or empty):
            self.problems.add(where, f"has to be a text, and is {shown(value)}")
            return ""
        return value

    def flag(self, where: Path, value: object) -> bool:
        if not isinstance(value, bool):
            self.problems.add(where, f"has to be true or false, and is {shown(value)}")
            return True
        return value

    def one_of(self, where: Path, value: object, known: tuple[str, ...]) -> str | None:
        if isinstance(value, str) and value in known:  # a Severity is a str
            return str(getattr(value, "value", value))
        if isinstance(value, str):
            self.problems.add(where, f"there is no {shown(value)}{_nearest(value, known)}")
        else:
            self.problems.add(where, f"has to be one of {', '.join(known)}, and is {shown(value)}")
        return None

    def severity(self, where: Path, value: object) -> Severity | None:
        word = self.one_of(where, value, tuple(severity.value for severity in Severity))
        return None if word is None else Severity(word)

    def number(self, where: Path, value: object, setting: Setting) -> float | None:
        try:
            return setting.check(value)
        except OverflowError:
            self.problems.add(where, "is too large for a number")
        except ValueError as error:
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                self.problems.add(where, str(error).removeprefix(f"{setting.name} "))
            else:
                self.problems.add(where, f"has to be a number ({setting.unit}), and is {shown(value)}")
        return None

    def seconds(self, where: Path, value: object) -> float | None:
        match = _DURATION.fullmatch(value) if isinstance(value, str) else None
        if match:
            value = float(match[1]) * _SECONDS[match[2]]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= LONGEST_REPEAT:
            self.problems.add(
                where, f'has to be seconds or a time such as "4h", 30 days at most, and is {shown(value)}'
            )
            return None
        return float(value)

    def rules(self, value: object, own: list[OwnRuleSpec]) -> tuple[list[Chosen], list[str], dict[str, Any]]:
        changed: dict[str, Any] = {}
        silenced: list[str] = []
        mine = {spec.name: spec for spec in own}
        classes: dict[str, type[Rule]] = {rule.name: rule for rule in RULES}
        classes |= {name: own_rule(spec) for name, spec in mine.items()}
        values: dict[str, dict[str, float]] = {}
        lids: dict[str, Severity] = {}
        for name, entries in self.table(("rules",), value).items():
            rule = classes.get(name)
            if rule is None:
                self.problems.add(("rules", name), f"there is no such rule{_nearest(name, tuple(classes))}")
                continue
            settings = settings_of(rule)
            where = ("rules", name)
            table = self.table(where, entries, ("enabled", "at_most", *settings))
            for key, entry in table.items():
                path = (*where, key)
                if key == "enabled":
                    if not self.flag(path, entry):
                        silenced.append(name)
                        changed[".".join(path)] = False
                elif key == "at_most":
                    lid = self.severity(path, entry)
                    if lid is not None and lid is not Severity.CRITICAL:
                        lids[name] = lid
                        changed[".".join(path)] = lid.value
                else:
                    number = self.number(path, entry, settings[key])
                    if number is not None and number != settings[key].default:
                        values.setdefault(name, {})[key] = number
                        changed[".".join(path)] = number
            if name in mine and name in values:
                numbers = {key: values[name].get(key, getattr(mine[name], key)) for key in ("value", "over")}
                classes[name] = own_rule(replace(mine[name], value=numbers["value"], over=numbers["over"]))
                del values[name]
            self._try(where, rule, values.get(name, {}))
        chosen = []
        for name, rule in classes.items():
            if name in silenced:
                continue
            lid = lids.get(name)
            chosen.append(Chosen(with_lid(rule, lid) if lid else rule, values.get(name, {})))
        return chosen, silenced, changed

    def own_rules(self, value: object) -> list[OwnRuleSpec]:
        if value is None:
            return []
        if not isinstance(value, (list, tuple)):
            self.problems.add(("rule",), "a rule of your own is a table in a list: it begins with [[rule]]")
            return []
        found: list[OwnRuleSpec] = []
        taken = {rule.name: "comes with rlwatch" for rule in RULES}
        for place, entry in enumerate(value):
            spec = self._own_rule(("rule", place), entry)
            if spec is None:
                continue
            if spec.name in taken:
                why = f"{shown(spec.name)} {taken[spec.name]}: choose another name"
                self.problems.add(("rule", place, "name"), why)
                continue
            taken[spec.name] = "is there twice"
            found.append(spec)
        return found

    def _own_rule(self, where: Path, entry: object) -> OwnRuleSpec | None:
        table = self.table(where, entry, OWN_KEYS)
        missing = [key for key in ("name", "metric", "when", "value") if key not in table]
        if missing:
            self.problems.add(where, f"has no {' and no '.join(missing)}")
            return None
        name = self.text((*where, "name"), table["name"])
        if name and not _NAME.fullmatch(name):
            why = f"has to be of small letters, digits and dashes, 60 at most, and is {shown(name)}"
            self.problems.add((*where, "name"), why)
            name = ""
        metric = self.text((*where, "metric"), table["metric"]).strip()
        when = self.one_of((*where, "when"), table["when"], WHEN)
        over: float | None = 20.0
        if "over" in table:
            setting = Setting(20, "optimizer steps", "", least=1, most=LONGEST)
            setting.name = "over"
            over = self.number((*where, "over"), table["over"], setting)
        value, relative = self._value((*where, "value"), table["value"], when)
        severity = (
            Severity.WARNING if "severity" not in table else self.severity((*where, "severity"), table["severity"])
        )
        message = self.text((*where, "message"), table["message"]) if "message" in table else ""
        try:
            check_message(message)
        except ValueError as error:
            self.problems.add((*where, "message"), str(error))
        advice = table.get("advice", [])
        advice = [advice] if isinstance(advice, str) else advice
        if not isinstance(advice, (list, tuple)) or not all(isinstance(a, str) and a.strip() for a in advice):
            self.problems.add((*where, "advice"), f"has to be a text or a list of them, and is {shown(advice)}")
            return None
        if not name or not metric or when is None or value is None or over is None or severity is None:
            return None
        if metric not in METRICS and not metric.startswith(_FREE):
            near = difflib.get_close_matches(metric[:60], list(METRICS), 1, 0.8)
            if near:
                self.hints.append(f"the rule {name} looks at {metric}, and rlwatch has no such metric but {near[0]}")
        return OwnRuleSpec(name, metric, when, value, relative, over, severity, message, tuple(advice))

    def _value(self, where: Path, value: object, when: str | None) -> tuple[float | None, bool]:
        relative = False
        if isinstance(value, str) and (match := re.fullmatch(r"\s*(\d{1,9}(?:\.\d*)?)\s*%\s*", value)):
            if when in ("above", "below"):
                self.problems.add(where, f"{shown(value)} is a change: it goes with when = rises or falls")
                return None, False
            value, relative = float(match[1]) / 100, True
        setting = Setting(0.0, 'as the metric; for rises and falls also "50%"', "", **value_limits(when or "above"))
        setting.name = "value"
        return self.number(where, value, setting), relative

    def _try(self, where: Path, rule: type[Rule], values: Mapping[str, float]) -> None:
        if values:
            try:
                rule({}, values)
            except ValueError as error:  # numbers that do not go together
                self.problems.add(where, str(error))

    def lints(self, value: object) -> tuple[str, ...]:
        """Those that are off: `near-ties = false`."""
        from rlwatch.audit.lints import LINTS  # numpy takes longer to import than most logs to read

        return tuple(
            name
            for name, entry in self.table(("lints",), value, tuple(LINTS)).items()
            if not self.flag(("lints", name), entry)
        )

    def alerts(self, value: object) -> dict[str, Any]:
        """As `rlwatch.alerts.configured.Delivery.read` takes it. What may be a secret is never shown."""
        found: dict[str, Any] = {}
        for key, entry in self.table(("alerts",), value, ALERT_KEYS).items():
            where = ("alerts", key)
            if key == "min_severity":
                severity = self.severity(where, entry)
                found[key] = None if severity is None else severity.value
            elif key == "repeat":
                found[key] = self.seconds(where, entry)
            elif key == "page_url":
                found[key] = self.hidden(where, entry)
            elif key == "wandb":
                found[key] = self.flag(where, entry)
            else:
                channel = self._channel(key, entry)
                if channel:  # an empty table sets nothing
                    found[key] = channel["run"] if key == "command" else channel
        return found

    def _channel(self, name: str, value: object) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, entry in self.table(("alerts", name), value, CHANNEL_KEYS[name]).items():
            where = ("alerts", name, key)
            if key not in ("run", "urls"):
                found[key] = self.hidden(where, entry)
            elif key == "run" and isinstance(entry, str) and entry.strip():
                found[key] = entry
            elif not isinstance(entry, (list, tuple)) or not entry or not all(isinstance(w, str) and w for w in entry):
                example = '["notify", "--json"]' if key == "run" else '["ntfy://...", "mailto://..."]'
                self.problems.add(where, f"has to be a list of texts, such as {example}")
            else:
                found[key] = shlex.join(entry) if key == "run" else list(entry)
        return found

    def hidden(self, where: Path, value: object) -> str:
        """A text that is in no message."""
        if not isinstance(value, str) or not value.strip():
            self.problems.add(where, "has to be a text")
            return ""
        return value.strip()


def _plain(spec: OwnRuleSpec) -> dict[str, Any]:
    value = f"{100 * spec.value:.12g}%" if spec.relative else spec.value
    plain: dict[str, Any] = {
        "name": spec.name,
        "metric": spec.metric,
        "when": spec.when,
        "value": value,
        "over": spec.over,
    }
    plain["severity"] = spec.severity.value
    if spec.message:
        plain["message"] = spec.message
    if spec.advice:
        plain["advice"] = list(spec.advice)
    return plain


def _nearest(name: str, known: tuple[str, ...]) -> str:
    return nearest(name[:60], list(known))
