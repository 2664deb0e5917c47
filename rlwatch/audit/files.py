"""A configuration file as a mapping: JSON, YAML or TOML, by its ending. Nothing in it is ever executed."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlwatch.audit.config import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LIMIT = 32 * 2**20
"""Bytes; a configuration is smaller."""


def load(path: Path) -> Mapping[str, Any]:
    """What stands in the file.

    Raises:
        ConfigError: It cannot be read, is not what its ending says, or is no mapping.
    """
    try:
        if path.stat().st_size > LIMIT:
            raise ConfigError(f"{path}: {path.stat().st_size:,} bytes are too many for a configuration")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is no text; a pickle such as training_args.bin is not opened") from None
    ending = path.suffix.lower()
    if ending == ".json":
        data = _json(path, text)
    elif ending in (".yaml", ".yml"):
        data = _yaml(path, text)
    elif ending == ".toml":
        data = _toml(path, text)
    else:
        raise ConfigError(f"{path}: not a .json, .yaml, .yml or .toml file")
    if not isinstance(data, Mapping):
        what = "is empty" if data is None else f"holds a {type(data).__name__}, not a mapping of settings"
        raise ConfigError(f"{path}: {what}; what is expected are names and values, as in loss_type: dapo")
    return data


def _json(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not JSON: {error}") from None


def _toml(path: Path, text: str) -> Any:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None


def _yaml(path: Path, text: str) -> Any:
    import yaml  # type: ignore[import-untyped, unused-ignore]  # here, for it costs time

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{path}: not plain YAML: {' '.join(str(error).split())}") from None
