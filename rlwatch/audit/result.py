"""The whole audit of one configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rlwatch.audit.config import AuditConfig
from rlwatch.audit.drift import Drift, drift_of
from rlwatch.audit.example import Example, example
from rlwatch.audit.lints import Lint, check
from rlwatch.audit.places import Place, places
from rlwatch.audit.read import read
from rlwatch.audit.weights import AGGREGATIONS

SCHEMA = 1


@dataclass(frozen=True)
class Audit:
    """What was found.

    Args:
        config: The configuration, in one shape for all frameworks.
        example: What each example of a fixed batch weighs.
        places: Where something is divided or averaged.
        lints: What is unwise, the worst first.
        drift: What the configuration alone says will become of lengths; None where nothing is learnt from rewards.
        silenced: Lints that would have been there, but for `silence`.
    """

    config: AuditConfig
    example: Example
    places: tuple[Place, ...]
    lints: tuple[Lint, ...]
    drift: Drift | None = None
    silenced: tuple[Lint, ...] = ()

    @property
    def formula(self) -> str:
        """What the backward pass multiplies a token's advantage and ratio by."""
        return AGGREGATIONS[self.config.aggregation]

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain JSON types, for the page and for `--format json`."""
        return {
            "schema": SCHEMA,
            "config": self.config.to_dict(),
            "formula": self.formula,
            "example": self.example.to_dict(),
            "places": [place.to_dict() for place in self.places],
            "drift": self.drift.to_dict() if self.drift else None,
            "lints": [lint.to_dict() for lint in self.lints],
            "silenced": [lint.name for lint in self.silenced],
        }


def audit(target: Any, *, silence: Sequence[str] = ()) -> Audit:
    """Audit a trainer, its arguments, a mapping of settings, a configuration file or a run directory.

    Args:
        target: A GRPOTrainer, RLOOTrainer, SFTTrainer, DPOTrainer or Trainer, or the config of one; a mapping; the path
            of a file of TRL, verl, OpenRLHF or prime-rl, of a trainer_state.json, or of a run directory.
        silence: Names of lints to leave out.

    Raises:
        ConfigError: It cannot be read or makes no sense; the message names the path and the key.
        ValueError: `silence` names a lint that there is not.
    """
    config = read(target)
    shown = example(config)
    lints = check(config, shown, silence=silence)
    told = [lint for lint in lints if lint.name not in silence]
    return Audit(
        config=config,
        example=shown,
        places=tuple(places(config, shown)),
        lints=tuple(told),
        drift=drift_of(config) if config.is_policy else None,
        silenced=tuple(lint for lint in lints if lint.name in silence),
    )
