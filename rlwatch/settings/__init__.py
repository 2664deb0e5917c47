"""`rlwatch.toml`: what a user sets, checked to the last key, and the rules that come of it."""

from rlwatch.settings.choose import Chooser
from rlwatch.settings.find import FILE, find
from rlwatch.settings.problems import SettingsError
from rlwatch.settings.settings import NONE, RuleArgument, Settings, SettingsArgument

__all__ = ["FILE", "NONE", "Chooser", "RuleArgument", "Settings", "SettingsArgument", "SettingsError", "find"]
