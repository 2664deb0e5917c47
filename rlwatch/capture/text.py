"""Prompts and completions as text that can be stored and told apart."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def as_text(content: Any) -> str:
    """A string as it is, messages as `role: content` a line."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(message, dict) for message in content):
        return "\n".join(f"{m.get('role')}: {_flat(m.get('content'))}" for m in content)
    return str(content)


def fingerprint(text: str) -> int:
    """64 bits, signed, that are the same in every process."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)


def _flat(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content, default=str, ensure_ascii=False)
