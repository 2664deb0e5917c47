"""Settings of a mapping, each as the type that it has to be; an error names the file and the key."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rlwatch.audit.config import LARGEST, ConfigError

_REFERENCE = re.compile(r"\$\{([A-Za-z0-9_.]+)\}")


class Values:
    """A mapping of settings, of which one after the other is taken.

    A key with dots is a path into nested mappings. `${a.b}` is what stands at `a.b`; any other `${...}` and `???` count
    as not there, and are told in `notes`.

    Args:
        data: The settings.
        source: Where they are from, for messages.
    """

    def __init__(self, data: Mapping[str, Any], source: str) -> None:
        self.data = data
        self.source = source
        self.found: dict[str, str] = {}
        self.notes: list[str] = []

    def has(self, *keys: str) -> bool:
        """One of these keys is there, and not null."""
        return any(self._at(key) is not None for key in keys)

    def number(self, field: str, default: float, *keys: str) -> float:
        """A number; text such as `1e-6`, which YAML takes for text, is one too."""
        value, key = self._take(field, keys)
        if value is None:
            return default
        try:
            if isinstance(value, bool):
                raise ValueError
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise self.wrong(key, value, "a number") from None
        if math.isnan(number):
            raise self.wrong(key, value, "a number")
        return number

    def optional(self, field: str, *keys: str) -> float | None:
        """A number, or None where there is none."""
        return self.number(field, 0.0, *keys) if self.has(*(keys or (field,))) else None

    def count(self, field: str, default: int, *keys: str) -> int:
        """A whole number, at least 1: of ranks, rows, steps; what is read from it divides by it."""
        number = self.number(field, default, *keys)
        if math.isinf(number) or number != int(number):
            raise self.wrong(self.found.get(field, field), number, "a whole number")
        if number < 1 and self.has(*(keys or (field,))):
            raise self.wrong(self.found[field], int(number), f"from 1 to {LARGEST:,}")
        return int(number)

    def flag(self, field: str, default: bool, *keys: str) -> bool:
        """True or false."""
        value, key = self._take(field, keys)
        if value is None:
            return default
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if not isinstance(value, bool) and not (isinstance(value, (int, float)) and value in (0, 1)):
            raise self.wrong(key, value, "true or false")
        return bool(value)

    def word(self, field: str, default: str, known: Sequence[str] = (), *keys: str) -> str:
        """A word, one of the known ones if there are any."""
        value, key = self._take(field, keys)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.wrong(key, value, "text")
        if known and value not in known:
            raise self.wrong(key, value, f"one of {', '.join(known)}", nearest(value, known))
        return value

    def raw(self, field: str, *keys: str) -> Any:
        """Whatever stands there, or None."""
        return self._take(field, keys)[0]

    def wrong(self, key: str, value: object, wanted: str, near: str = "") -> ConfigError:
        """The error that says which key of which file is wrong, and how."""
        return ConfigError(f"{self.source}: {key}: {value!r} is not {wanted}{near}")

    def _take(self, field: str, keys: Sequence[str]) -> tuple[Any, str]:
        for key in keys or (field,):
            value = self._at(key)
            if value is not None:
                self.found[field] = key
                return value, key
        return None, (keys or (field,))[0]

    def _at(self, key: str, depth: int = 0) -> Any:
        value = self.data.get(key)
        if key not in self.data:
            value = self.data
            for part in key.split("."):
                value = value.get(part) if isinstance(value, Mapping) else None
        if isinstance(value, str) and ("${" in value or value == "???"):
            reference = _REFERENCE.fullmatch(value)
            if reference and depth < 10:
                return self._at(reference[1], depth + 1)
            note = f"{key} is {value}, which only the framework can fill in: taken for its default."
            if note not in self.notes:
                self.notes.append(note)
            return None
        return value


def nearest(name: str, known: Sequence[str]) -> str:
    """`; did you mean ...?` for a name that is almost one of these, else nothing.

    >>> nearest("dappo", ["dapo", "grpo"])
    "; did you mean 'dapo'?"
    """
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
