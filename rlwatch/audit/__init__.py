"""Denominators: what each loss configuration weighs, where it divides, and what is unwise about it.

    >>> import rlwatch
    >>> rlwatch.audit({"loss_type": "grpo", "num_generations": 8}).config.aggregation
    'sequence-mean'

This package is named like the function that `rlwatch.audit` is, and can be called like it: whichever of the two is
imported first, both work.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from rlwatch.audit.config import AuditConfig, ConfigError
from rlwatch.audit.result import Audit, audit

__all__ = ["Audit", "AuditConfig", "ConfigError", "audit"]


class _Callable(ModuleType):
    def __call__(self, target: Any, *, silence: Sequence[str] = ()) -> Audit:
        return audit(target, silence=silence)


sys.modules[__name__].__class__ = _Callable
