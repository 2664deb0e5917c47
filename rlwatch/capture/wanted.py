"""What a user wants a live run to be judged by: checked before the training, found and settled when it begins."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rlwatch.alerts import stdout
from rlwatch.settings import RuleArgument, Settings, SettingsArgument, SettingsError


class Wanted:
    """The settings and rules that a callback or a Monitor was given.

    Args:
        dir: The folder of runs, where a file of settings is looked for if none is given.
        settings: A path, a mapping as in the file, or None to look for a file.
        rules: Rules in Python.

    Raises:
        ValueError: What was given makes no sense; of what is found, that is said when the training begins.
    """

    def __init__(
        self,
        dir: str | os.PathLike[str] = "runs",
        settings: SettingsArgument = None,
        rules: Sequence[RuleArgument] = (),
    ) -> None:
        self._dir = dir
        self._rules = Settings().with_rules(rules)
        self._given = None if settings is None else Settings.of(settings).with_rules(rules)

    def names(self) -> list[str]:
        """The rules that there are, also in a file that is found; for `stop_on=`."""
        try:
            settings = self._find(None)
        except ValueError:
            settings = self._rules
        return settings.names

    def settle(self, run: Path | None = None) -> Settings:
        """The settings that hold from now on. A file that was found and makes no sense ends nothing: the defaults hold.

        Args:
            run: The run directory that the training goes on with, or None.
        """
        try:
            settings = self._find(run)
        except ValueError as error:
            stdout.say(f"rlwatch: {error}\nrlwatch: so no file of settings is used: the defaults hold.")
            return self._rules.without(str(error))
        if settings.file is not None:
            stdout.say(f"rlwatch: settings from {settings.file}")
        for hint in settings.hints:
            stdout.say(f"rlwatch: {hint}?")
        return settings

    def _find(self, run: Path | None) -> Settings:
        if self._given is not None:
            return self._given
        found = Settings.load(beside=run if run is not None else Path(self._dir) / "a run")
        try:
            return found.with_rules(self._rules.python)
        except ValueError as error:
            raise SettingsError(f"{found.file}: {error}") from None
