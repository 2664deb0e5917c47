"""JSON lines that lose nothing: strict JSON on disk, NaN and inf kept apart from absent.

JSON has no NaN. Python writes the bare word, which browsers, jq and polars refuse. Here a number that is not finite is
written as one of the strings "NaN", "Infinity", "-Infinity", and None as null.

>>> encode({"loss": float("nan"), "kl": None})
'{"loss":"NaN","kl":null}'
>>> restore_floats({"loss": "NaN", "kl": None})
{'loss': nan, 'kl': None}
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_FLOAT = frozenset({float})


def _quickest() -> Callable[[bytes], Any]:
    try:
        loads: Callable[[bytes], Any] = import_module("orjson").loads
    except ImportError:
        return json.loads
    return loads


_loads = _quickest()


def _strict(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    return value


def encode(value: Any) -> str:
    """One line of strict JSON, without a newline.

    Raises:
        TypeError: A value is neither a JSON type nor a non-finite float.
    """
    return json.dumps(_strict(value), separators=(",", ":"), allow_nan=False)


def decode(line: bytes) -> Any:
    """What a line of JSON says: as json.loads reads it, and several times as fast where orjson is installed.

    >>> decode(b'{"loss":NaN}')
    {'loss': nan}

    Raises:
        ValueError: It is not JSON.
        RecursionError: It is nested too deeply.
    """
    try:
        return _loads(line)
    except ValueError:  # what orjson refuses, json may read: NaN as a bare word, half of a surrogate pair
        return json.loads(line)


def restore_floats(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """Metric values as they were before [`encode`][rlwatch.runs.jsonl.encode].

    Raises:
        ValueError: A value is not a number, null, or one of the three words.
    """
    if type(metrics) is dict and _FLOAT.issuperset(map(type, metrics.values())):
        return metrics  # nothing to restore, as in nearly every line
    restored: dict[str, float | None] = {}
    for name, value in metrics.items():
        if isinstance(value, str) and value in _WORDS:
            restored[name] = _WORDS[value]
        elif value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
            restored[name] = value
        else:
            raise ValueError(f"metric {name!r} is {value!r}, which is not a number")
    return restored
