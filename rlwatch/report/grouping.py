"""Which runs are repetitions of each other: by their settings, by their names, or as a person says."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rlwatch.readers.settings import simple_settings
from rlwatch.report.analysis import Analysis
from rlwatch.runs.records import Run

BY_NAME = "name"
"""As a key, it stands for the run's name without its seed."""

REWARDS = "reward_functions"
"""The setting that holds the reward functions and their weights."""

PARTIAL = {"trl-state"}
"""Formats that hold a few settings, of which none tells one method from another."""

_SEED = re.compile(r"(?:^|(?<=[-_. ]))(?:s|seed|rng)[-_=.]?(\d+)(?=$|[-_. ])", re.IGNORECASE)
_WHEN = re.compile(r"[-_. ]?(?:19|20)\d{2}-?\d{2}-?\d{2}[-_T]?\d{2}[-_:]?\d{2}[-_:]?\d{2}")
_NOT_A_NAME = {"trainer_state", "metrics", "output", "log", "history", "run", "train"}
_NO_METHOD = re.compile(
    r"(^|_)(seed|run_?id|run_?name|exp(eriment)?_?name|project_?name|group_?name|output|time_?stamp|date|host(name)?|pid)$"
    r"|_seed$|_dir$|^(save|log|logging|eval|test)_(steps|freq|strategy|interval|path|first_step)$|^default_local_dir$"
    r"|^(report_to|logger|hub_.*|push_to_hub|resume_.*|save_total_limit|disable_tqdm|wandb_.*|global_step|name|rank)$",
    re.IGNORECASE,
)
"""Settings that do not change what is learnt: seeds, names, places, and how often something is written down."""


@dataclass
class Grouped:
    """Runs that are repetitions of each other.

    Args:
        name: What the group is called: by the settings that set it apart.
        settings: Those settings; a setting that its runs do not have is absent.
        members: Its runs.
    """

    name: str
    settings: dict[str, Any]
    members: list[Analysis] = field(default_factory=list)


def group_runs(analyses: Sequence[Analysis], by: Sequence[str] = ()) -> tuple[list[Grouped], list[str], list[str]]:
    """The groups, in the order of their first runs; what they are grouped by; and notes, a sentence each.

    Args:
        analyses: The runs.
        by: Nothing: by all settings that differ between the runs, but for seeds, names and places; by the names without
            their seeds where no run has such settings. Names of settings, `name` among them: by those. `GROUP=PATTERN`:
            runs whose name or path matches, the first that does; the others are left out.

    Raises:
        ValueError: `by` mixes patterns and settings, or names a setting that no run has.
    """
    patterns = [entry for entry in by if "=" in entry]
    if patterns and len(patterns) < len(by):
        raise ValueError("group either by settings or by NAME=PATTERN, not by both")
    if patterns:
        return _by_patterns(analyses, patterns)
    known = [settings_of(analysis.run) for analysis in analyses]
    notes: list[str] = []
    if by:
        _check(by, known)
        keys = list(by)
    else:
        known = [{} if a.run.format in PARTIAL else own for a, own in zip(analyses, known, strict=True)]
        keys = differing(known)
        without = sum(not settings for settings in known)
        if not keys:
            keys = [BY_NAME]
            if len(analyses) > 1 and without < len(analyses):
                notes.append("no known setting differs between the runs: they are grouped by name")
        elif without:
            notes.append(
                f"{without} of {len(analyses)} runs say too little of their settings: those are grouped by name"
            )
    groups: dict[Hashable, Grouped] = {}
    for analysis, settings in zip(analyses, known, strict=True):
        own = [BY_NAME] if not settings and not by else keys
        values = {k: _value(analysis.run, settings, k) for k in own if k == BY_NAME or k in settings}
        key = tuple((name, repr(value)) for name, value in values.items())
        groups.setdefault(key, Grouped("", values)).members.append(analysis)
    _name(list(groups.values()))
    for group in groups.values():
        names = list(dict.fromkeys(base_name(analysis.run) for analysis in group.members))
        if len(names) > 1 and not by:
            shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
            notes.append(f"{group.name} holds runs of different names with the same known settings ({shown})")
    return list(groups.values()), keys, notes


def settings_of(run: Run) -> dict[str, Any]:
    """What a run is known to be configured as, flat: its configuration, its model, its reward functions."""
    found = simple_settings(run.info.get("config"))
    if found and run.format == "rlwatch":
        found |= simple_settings({"model": run.info.get("model")})
        found[REWARDS] = simple_settings(run.info.get("reward_functions"))
    return {name: value for name, value in found.items() if not _NO_METHOD.search(name.rpartition(".")[2])}


def differing(known: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings that differ between the runs that have settings; one that some of them lack differs too."""
    having = [settings for settings in known if settings]
    names = dict.fromkeys(name for settings in having for name in settings)
    return [name for name in names if len({repr(s.get(name, _Absent)) for s in having}) > 1]


class _Absent:
    """In place of a setting that is not there, which is not the same as None."""


def base_name(run: Run) -> str:
    """A run's name without its seed and its time; of a run that is called only that, the name of its folder."""
    for name in (run.name, *reversed(Path(run.path).parts)):
        bare = _WHEN.sub("", _SEED.sub("", name))
        bare = name if bare == name else re.sub(r"[-_. ]{2,}", "-", bare).strip("-_. ")
        stem = bare.partition(".json")[0].partition(".csv")[0]
        if stem and stem not in _NOT_A_NAME:
            return bare
    return run.name


def seed_of(run: Run) -> int | None:
    """The seed: of the configuration, else of the name, else of the path; None where none says it."""
    config = run.info.get("config")
    for name, value in (simple_settings(config) if isinstance(config, Mapping) else {}).items():
        if name.rpartition(".")[2] == "seed" and isinstance(value, int):
            return value
    found = _SEED.findall(run.name) or [x for part in Path(run.path).parts for x in _SEED.findall(part)]
    return int(found[-1]) if found else None


def _value(run: Run, settings: Mapping[str, Any], key: str) -> Any:
    return base_name(run) if key == BY_NAME and key not in settings else settings[key]


def _check(by: Sequence[str], known: Sequence[Mapping[str, Any]]) -> None:
    for key in by:
        if key != BY_NAME and not any(key in settings for settings in known):
            there = ", ".join(differing(known)) or "none"
            raise ValueError(f"no run has the setting {key!r}; those that differ are: {there}")


def _by_patterns(analyses: Sequence[Analysis], patterns: Sequence[str]) -> tuple[list[Grouped], list[str], list[str]]:
    split = [entry.partition("=")[::2] for entry in patterns]
    groups = {name: Grouped(name, {}) for name, _ in split}
    left_out = []
    for analysis in analyses:
        run = analysis.run
        for name, pattern in split:
            if fnmatchcase(run.name, pattern) or fnmatchcase(run.path, pattern):
                groups[name].members.append(analysis)
                break
        else:
            left_out.append(run.name)
    notes = [f"no pattern matches {', '.join(left_out)}: left out"] if left_out else []
    notes += [f"{name}: no run matches" for name, group in groups.items() if not group.members]
    return [group for group in groups.values() if group.members], list(patterns), notes


def _name(groups: Sequence[Grouped]) -> None:
    """By the settings, up to three of them; by the names of the runs where those tell the groups apart as well."""
    bases = [{base_name(analysis.run) for analysis in group.members} for group in groups]
    apart = all(len(own) == 1 for own in bases) and len(set().union(*bases)) == len(groups)
    used: dict[str, int] = {}
    for group, own in zip(groups, bases, strict=True):
        if len(group.settings) > 3 and apart:
            name = next(iter(own))
        elif set(group.settings) == {BY_NAME}:
            name = str(group.settings[BY_NAME])
        else:
            shown = [f"{key.rpartition('.')[2]}={value}" for key, value in list(group.settings.items())[:3]]
            more = len(group.settings) - len(shown)
            name = ", ".join(shown) + (f" and {more} more" if more > 0 else "") or "all runs"
        used[name] = used.get(name, 0) + 1
        group.name = name if used[name] == 1 else f"{name} ({used[name]})"
