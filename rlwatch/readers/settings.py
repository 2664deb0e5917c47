"""A run's settings as a log holds them, without what is large and without what is secret."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_MOST = 5000
_DEPTH = 8
_LONGEST = 1000
_LISTED = 64
_SECRET = re.compile(r"passw|secret|webhook|credential|authoriz", re.IGNORECASE)
_SECRET_UNLESS_A_NUMBER = re.compile(r"token|key|auth", re.IGNORECASE)  # `max_tokens` and `eos_token_id` are none
_SECRET_TEXT = re.compile(r"hooks\.slack\.com|^(hf_|sk-|xox[a-z]-|gh[a-z]_|github_pat_)|://[^/\s]*:[^/\s]*@")


def simple_settings(config: Any) -> dict[str, Any]:
    """Those settings that are numbers, short texts, None, or short lists of them; a nested one is `outer.inner`.

    What may be a secret by its name or its look is left out.

    >>> simple_settings({"lr": 0.1, "hub_token": "x", "max_tokens": 9, "optim": {"betas": [0.9, 0.99]}})
    {'lr': 0.1, 'max_tokens': 9, 'optim.betas': [0.9, 0.99]}
    """
    found: dict[str, Any] = {}
    if isinstance(config, Mapping):
        for name, value in _flat(config, "", 0):
            if len(found) >= _MOST:
                break
            found[name] = value
    return found


def _flat(config: Mapping[Any, Any], before: str, depth: int) -> Iterator[tuple[str, Any]]:
    for key, value in config.items():
        name = f"{before}{key}"
        if len(name) > _LONGEST or _SECRET.search(str(key)):
            continue
        if isinstance(value, Mapping):
            if depth < _DEPTH and not _SECRET_UNLESS_A_NUMBER.search(str(key)):
                yield from _flat(value, f"{name}.", depth + 1)
        elif isinstance(value, (list, tuple)):
            if len(value) <= _LISTED and all(_is_simple(str(key), item) for item in value):
                yield name, list(value)
        elif _is_simple(str(key), value):
            yield name, value


def _is_simple(key: str, value: Any) -> bool:
    if value is None or isinstance(value, (bool, int, float)):
        return True
    if not isinstance(value, str) or len(value) > _LONGEST:
        return False
    return not _SECRET_UNLESS_A_NUMBER.search(key) and not _SECRET_TEXT.search(value)
