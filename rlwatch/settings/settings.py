"""`Settings`: the rules that judge a run as a user wants it, and how alerts reach them."""

from __future__ import annotations

import copy
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from rlwatch.detect.rule import Rule
from rlwatch.settings.find import FILE, find
from rlwatch.settings.parse import Parsed, parse
from rlwatch.settings.problems import SettingsError, shown

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from typing_extensions import Self

LARGEST = 1_000_000
"""Bytes that a file of settings may have."""

RuleArgument = type[Rule] | Rule
"""What stands in `rules=[...]`: a class, made once a run with its configuration, or a rule that was made already."""


@dataclass(frozen=True)
class Settings:
    """What a user has set. Without any, everything is as rlwatch comes.

    Args:
        parsed: What was checked.
        source: What it comes from, for people; empty where nothing was set.
        file: The file, if it is one.
        python: Rules of the user's own in Python.
        data: The mapping as it was given; it may hold a secret.
        refused: Why a file that was found is not used.
    """

    parsed: Parsed = field(default_factory=lambda: parse({}, FILE))
    source: str = ""
    file: Path | None = None
    python: tuple[RuleArgument, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)
    refused: str = ""

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None = None, *, beside: str | os.PathLike[str] | None = None) -> Self:
        """Read a file of settings.

        Args:
            path: The file; None to look for it.
            beside: The run directory, folder of runs or log beside which it is looked for, before the working
                directory.

        Raises:
            SettingsError: The named file cannot be read, or what is in the one that holds makes no sense.
        """
        if path is None:
            found = find(beside)
            return cls() if found is None else cls.load(found)
        file = Path(path)
        text = _read(file)
        try:
            data = tomllib.loads(text)
        except RecursionError:
            raise SettingsError(f"{file}: it is nested too deeply") from None
        except ValueError as error:  # what is no TOML, and a number of too many digits
            raise SettingsError(f"{file}: it is not TOML: {error}") from None
        return cls(parse(data, str(file), text), str(file), file, data=data)

    @classmethod
    def of(cls, argument: SettingsArgument, *, beside: str | os.PathLike[str] | None = None) -> Settings:
        """What a `settings=` argument stands for: a path, a mapping as in the file, or None to look for a file.

        Raises:
            SettingsError: It makes no sense.
        """
        if isinstance(argument, Settings):
            return argument
        if argument is None or isinstance(argument, (str, os.PathLike)):
            return cls.load(argument, beside=beside)
        if not isinstance(argument, Mapping):
            raise SettingsError(f"settings= takes a path or a mapping, and not {shown(argument)}")
        return cls(parse(argument, "settings"), "the settings given" if argument else "", data=argument)

    @classmethod
    def recorded(cls, info: Mapping[str, Any]) -> Settings | None:
        """What run.json says that a run was judged by; None where that is the defaults, or cannot be told."""
        said = info.get("settings")
        if not isinstance(said, Mapping) or not (said.get("rules") or said.get("rule")):
            return None
        data = {key: said[key] for key in ("rules", "rule") if said.get(key)}
        try:
            return cls(parse(data, "run.json"), "the run's run.json", data=data)
        except SettingsError:  # another version's
            return None

    def with_rules(self, rules: Sequence[RuleArgument]) -> Self:
        """The same with rules in Python. A rule that was made already is copied for each run.

        Raises:
            ValueError: One is no rule, has no name of its own, or cannot be copied.
        """
        taken = {chosen.rule.name for chosen in self.parsed.chosen} | {*self.parsed.silenced}
        taken |= {rule.name for rule in self.python}
        for rule in rules:
            name = _check_rule(rule)
            if name in taken:
                raise ValueError(f"rules=: there is a rule {name!r} already: a name tells the alerts apart")
            taken.add(name)
        return replace(self, python=(*self.python, *rules))

    def with_set(self, name: str, value: object) -> Self:
        """The same with one more thing set, as `--set entropy-collapse.fallen=0.2` does.

        Args:
            name: `rule.setting`, where the setting may also be `enabled` or `at_most`.
            value: The value, or a text of TOML for it; what is no TOML is the text itself.

        Raises:
            SettingsError: There is no such rule or setting, or the value makes no sense.
        """
        rule, _, key = name.removeprefix("rules.").partition(".")
        if not rule or not key:
            raise SettingsError(f"--set {name}: a setting is RULE.SETTING, such as entropy-collapse.enabled")
        if isinstance(value, str):
            value = _value(value)
        tables = dict(self.data.get("rules", {}))
        tables[rule] = {**tables.get(rule, {}), key: value}
        data = {**self.data, "rules": tables}
        said = f"--set {name}"
        parsed = parse(data, said)
        sources = [source for source in (self.source, f"{said}={shown(value)}") if source]
        return replace(self, parsed=parsed, source=" and ".join(sources), data=data)

    def rules(
        self, config: Mapping[str, Any] | None = None, on_fault: Callable[[str, Exception], None] | None = None
    ) -> list[Rule]:
        """A fresh set of rules, for one run.

        Args:
            config: The trainer's configuration.
            on_fault: Called with the name of a rule of the user's that cannot be made, and why; without it that raises.
        """
        found = []
        for chosen in self.parsed.chosen:
            found.append(chosen.rule(config, chosen.values) if chosen.values else chosen.rule(config))
        for rule in self.python:
            try:
                found.append(_fresh(rule, config or {}))
            except Exception as error:
                if on_fault is None:
                    raise
                on_fault(rule.name, error)
        return found

    @property
    def changes_rules(self) -> bool:
        """Whether a run may be judged otherwise than by the defaults."""
        return bool(self.parsed.changed or self.parsed.own or self.python)

    @property
    def names(self) -> list[str]:
        """The rules that judge."""
        return [chosen.rule.name for chosen in self.parsed.chosen] + [rule.name for rule in self.python]

    def without(self, why: str) -> Self:
        """The same, and a word on why there is no more."""
        return replace(self, refused=why)

    @property
    def silenced(self) -> tuple[str, ...]:
        """The rules that are off."""
        return self.parsed.silenced

    @property
    def silenced_lints(self) -> tuple[str, ...]:
        """The lints of a configuration that are off."""
        return self.parsed.lints

    def were_in_python(self, info: Mapping[str, Any]) -> list[str]:
        """The rules in Python that run.json names and that are not here: nobody can read them from a file."""
        said = info.get("settings")
        names = said.get("python") if isinstance(said, Mapping) else None
        known = {rule.name for rule in self.python}
        return [str(name) for name in names if name not in known] if isinstance(names, list) else []

    @property
    def hints(self) -> tuple[str, ...]:
        """What may not be what was meant, a sentence each."""
        return self.parsed.hints

    @property
    def alerts(self) -> Mapping[str, Any]:
        """The table `alerts`, checked, with times in seconds, as
        [`Delivery.read`][rlwatch.alerts.configured.Delivery.read] takes it. It may hold secrets: never show it.
        """
        return self.parsed.alerts

    def to_dict(self) -> dict[str, Any]:
        """What was set, as plain values and without a secret: for run.json and reports; empty where nothing was."""
        found: dict[str, Any] = {}
        if self.source:
            found["from"] = self.source
        if self.refused:
            found["refused"] = self.refused
        for path, value in self.parsed.changed.items():
            _, rule, key = path.split(".", 2)
            found.setdefault("rules", {}).setdefault(rule, {})[key] = value
        if self.parsed.own:
            found["rule"] = [dict(own) for own in self.parsed.own]
        if self.parsed.lints:
            found["lints"] = dict.fromkeys(self.parsed.lints, False)
        if self.python:
            found["python"] = [rule.name for rule in self.python]
        open_ones = {key: self.alerts[key] for key in ("min_severity", "repeat") if key in self.alerts}
        channels = [key for key in ("slack", "command", "apprise") if key in self.alerts]
        if open_ones or channels:
            found["alerts"] = {**open_ones, **({"channels": channels} if channels else {})}
        return found


SettingsArgument = Union[str, "os.PathLike[str]", Mapping[str, Any], Settings, None]
"""A path, a mapping as in the file, or None to look for the file."""

NONE = Settings()
"""Nothing was set."""


def _read(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            raw = stream.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        raise SettingsError(f"{file}: it cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(raw) > LARGEST:
        raise SettingsError(f"{file}: it has more than {LARGEST:,} bytes")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{file}: it is not UTF-8 (byte {error.start})") from None


def _value(text: str) -> object:
    """The value that a text is in TOML, or the text."""
    try:
        data = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return data["value"] if list(data) == ["value"] else text


def _check_rule(rule: object) -> str:
    kind = rule if isinstance(rule, type) else type(rule)
    if not issubclass(kind, Rule):
        raise ValueError(f"rules= takes classes made from rlwatch.rules.Rule, and not {shown(rule)}")
    if inspect.isabstract(kind):
        raise ValueError(f"rules=: {kind.__name__} has no update(record)")
    name = getattr(rule, "name", None)
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f'rules=: {kind.__name__} has no name: it needs a line such as name = "slow-reward"')
    if isinstance(rule, Rule):
        try:
            copy.deepcopy(rule)
        except Exception as error:
            raise ValueError(
                f"rules=: {name} cannot be copied for each run ({error}): give the class instead"
            ) from error
    return name


def _fresh(rule: RuleArgument, config: Mapping[str, Any]) -> Rule:
    if isinstance(rule, type):
        return rule(config)
    made = copy.deepcopy(rule)
    if not getattr(made, "config", None):
        made.config = config
    return made
