"""Which settings hold for which run, where several are judged."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlwatch.settings.find import find
from rlwatch.settings.settings import RuleArgument, Settings, SettingsArgument


class Chooser:
    """The settings that were given hold for all runs; else each has those of the file that is found for it.

    Where there is no file either, a run directory's run.json may say what it was judged by when it ran.

    Args:
        settings: A path, a mapping, or None to look for a file.
        changes: What is set besides, as in [`Settings.with_set`][rlwatch.settings.Settings.with_set].
        rules: Rules in Python.

    Raises:
        SettingsError: The settings that were given make no sense.
        ValueError: A rule is none.
    """

    def __init__(
        self,
        settings: SettingsArgument = None,
        changes: Sequence[tuple[str, object]] = (),
        rules: Sequence[RuleArgument] = (),
    ) -> None:
        self._changes = list(changes)
        self._rules = list(rules)
        self._known: dict[Path | None, Settings] = {}
        self._given = None if settings is None else self._finish(Settings.of(settings))
        if self._given is None:
            Settings().with_rules(rules)  # what is wrong with them is said before anything is read

    def of(self, path: str | os.PathLike[str] | None, info: Mapping[str, Any] | None = None) -> Settings:
        """The settings for a run.

        Args:
            path: The log or run directory.
            info: What its run.json says.

        Raises:
            SettingsError: Those that were found make no sense.
        """
        if self._given is not None:
            return self._given
        file = find(path)
        if file is None:
            recorded = Settings.recorded(info or {})
            if recorded is not None:
                return self._finish(recorded)
        if file not in self._known:
            self._known[file] = self._finish(Settings() if file is None else Settings.load(file))
        return self._known[file]

    def _finish(self, settings: Settings) -> Settings:
        for name, value in self._changes:
            settings = settings.with_set(name, value)
        return settings.with_rules(self._rules) if self._rules else settings
