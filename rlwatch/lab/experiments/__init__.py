"""The experiments that there are, by name."""

from __future__ import annotations

import importlib

from rlwatch.lab.experiment import Experiment

MODULES = {
    "failure-room": "rlwatch.lab.experiments.failure_room",
    "length-bias": "rlwatch.lab.experiments.length_bias",
    "difficulty-bias": "rlwatch.lab.experiments.difficulty_bias",
    "mismatch": "rlwatch.lab.experiments.mismatch",
    "hacking": "rlwatch.lab.experiments.hacking",
    "regulariser": "rlwatch.lab.experiments.regulariser",
    "dynamic-sampling": "rlwatch.lab.experiments.dynamic_sampling",
    "ratios": "rlwatch.lab.experiments.ratios",
    "interactions": "rlwatch.lab.experiments.interactions",
}
"""Name → the module that says what it is, as `EXPERIMENT`."""


def find(name: str) -> Experiment:
    """The experiment of that name.

    Raises:
        ValueError: There is none; the message names those that there are.
    """
    if name not in MODULES:
        raise ValueError(f"there is no experiment {name!r}; there is: {', '.join(MODULES)}")
    found = importlib.import_module(MODULES[name]).EXPERIMENT
    assert isinstance(found, Experiment)
    return found
