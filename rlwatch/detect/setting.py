"""A threshold of a rule: a number that has a source, and that `rlwatch.toml` may change."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from typing_extensions import Self


class Setting:
    """A number that a rule judges by. On the class it is this description, on a rule the number itself.

    Args:
        default: What it is unless it was changed.
        unit: Of what it is a number: `share of groups`, `optimizer steps`.
        source: Where the number comes from: theory, a paper, a measurement, a calibration.
        least: The smallest number that makes sense.
        most: The largest one.

    >>> class Deaf:
    ...     half_life = Setting(20, "optimizer steps", "a guess")
    >>> Deaf.half_life.unit, Deaf().half_life
    ('optimizer steps', 20.0)
    """

    def __init__(self, default: float, unit: str, source: str, *, least: float = 0.0, most: float = math.inf) -> None:
        self.default, self.unit, self.source, self.least, self.most = float(default), unit, source, least, most
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, rule: None, owner: type) -> Self: ...

    @overload
    def __get__(self, rule: object, owner: type) -> float: ...

    def __get__(self, rule: object | None, owner: type) -> Self | float:
        return self if rule is None else self.default  # a rule's own number lies in its __dict__ and comes first

    def check(self, value: object) -> float:
        """The value as a float.

        Raises:
            ValueError: It is no number, or none that makes sense.
        """
        if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
            raise ValueError(f"{self.name} has to be a number ({self.unit}), and is {value!r}")
        if not self.least <= value <= self.most:
            within = f"at least {self.least:g}" if self.most == math.inf else f"from {self.least:g} to {self.most:g}"
            raise ValueError(f"{self.name} has to be {within} ({self.unit}), and is {value:g}")
        return float(value)


def settings_of(owner: type) -> dict[str, Setting]:
    """The settings of a rule's class, those that it inherits first."""
    found = {}
    for base in reversed(owner.__mro__):
        found.update({name: value for name, value in vars(base).items() if isinstance(value, Setting)})
    return found


def apply_settings(rule: object, changed: Mapping[str, object]) -> None:
    """Give a rule its own numbers.

    Raises:
        ValueError: There is no such setting (the nearest one is named), or the number makes no sense.
    """
    known = settings_of(type(rule))
    own = vars(rule)
    for name, setting in known.items():
        own[name] = setting.default
    for name, value in changed.items():
        if name not in known:
            raise ValueError(f"there is no setting {name!r}{nearest(name, known)}")
        own[name] = known[name].check(value)


def nearest(name: str, known: Mapping[str, object] | list[str]) -> str:
    """A hint that can follow an error about an unknown name: the name that it may have been meant to be, or all."""
    close = difflib.get_close_matches(name, list(known), 1, 0.5)
    if close:
        return f": did you mean {close[0]!r}?"
    return f": there are {', '.join(known)}" if known else ": there are none"
