"""What a rule remembers, as plain values, and back: so that judging can go on in another process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PLAIN = (str, int, float, type(None))


def dump(thing: object) -> dict[str, Any]:
    """The attributes of an object and of its parts, as dicts, lists and numbers (NaN among them).

    Raises:
        TypeError: Something in it is none of these and no object of ours: its rule has to save itself.
    """
    return {name: _plain(value, f"{type(thing).__name__}.{name}") for name, value in attributes(thing).items()}


def restore(thing: Any, data: Mapping[str, Any]) -> None:
    """Set a fresh object, made with the same arguments, to what was dumped.

    Raises:
        ValueError: It was dumped from something else, or by another version.
    """
    own = attributes(thing)
    if own.keys() != data.keys():
        differ = ", ".join(sorted(own.keys() ^ data.keys()))
        raise ValueError(f"the saved state of {type(thing).__name__} is another version's ({differ})")
    for name, value in data.items():
        now = own[name]
        if isinstance(value, dict) and has_parts(now):
            restore(now, value)
        elif isinstance(value, list) and isinstance(now, tuple):
            setattr(thing, name, tuple(value))
        else:
            setattr(thing, name, value)


LEFT_OUT = ("config",)
"""Arguments, and not memory: whoever restores has made the object with them."""


def attributes(thing: object) -> dict[str, Any]:
    """What an object of ours remembers, by name."""
    names: dict[str, None] = {}
    for base in reversed(type(thing).__mro__):
        names.update(dict.fromkeys(vars(base).get("__slots__", ())))
    names.update(dict.fromkeys(getattr(thing, "__dict__", ())))
    return {name: getattr(thing, name) for name in names if name not in LEFT_OUT and hasattr(thing, name)}


def has_parts(value: object) -> bool:
    """Whether it is an object, with attributes of its own."""
    return not isinstance(value, (*PLAIN, dict, list, tuple))


def _plain(value: object, where: str) -> Any:
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, (list, tuple)):
        if all(isinstance(entry, PLAIN) for entry in value):
            return list(value)
    elif isinstance(value, dict):
        if all(isinstance(key, str) and isinstance(entry, PLAIN) for key, entry in value.items()):
            return dict(value)
    elif callable(value) or not (hasattr(value, "__dict__") or hasattr(type(value), "__slots__")):
        pass
    else:
        return dump(value)
    raise TypeError(f"{where} is a {type(value).__name__}, which has no plain form")
