"""What a run's updates were really made of, and what another decision in the loss would have made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlwatch.audit.drift import Drift, measured_drift
from rlwatch.runs.records import Run, StepRecord
from rlwatch.signals.decisions import EXPLAINED, NAMES

FAMILIES: Mapping[str, str] = {
    "weight": "as captured while it trained",
    "weight_grpo": "as loss_type grpo would have weighed these completions, from rollouts alone",
    "weight_dapo": "as loss_type dapo or dr_grpo would have weighed them, from rollouts alone",
}
"""Where weights come from."""

_KINDS = (
    ("incorrect", "wrong answers"),
    ("length_q1", "the shortest quarter"),
    ("length_q2", "the second quarter"),
    ("length_q3", "the third quarter"),
    ("length_q4", "the longest quarter"),
    ("hard", "prompts at most a quarter right"),
    ("easy", "prompts at least three quarters right"),
    ("truncated", "truncated answers"),
)

FIRST = 5
"""Generations whose weights are looked at: before lengths have moved, and some may have run into the limit."""

TURNED = 0.9
"""Cosine under which an update would have gone another way: about 25 degrees."""

ONE_LENGTH = 0.005
"""Weight on a middle quarter below which most completions are of one length, so that quarters say nothing."""

SCALED = 1.5
"""Factor from which it would have been of another size."""


@dataclass(frozen=True)
class Weighed:
    """The update's weight by kind, the mean over the steps that know it.

    Args:
        family: A key of `FAMILIES`.
        steps: How many steps say something.
        shares: Kind in words → its share of the update's weight, and its share of the completions where that is known.
        half: The fewest completions that carry half of an update, as a share of them.
        top_tenth: What the heaviest tenth carries.
        largest_group: What the heaviest group carries.
    """

    family: str
    steps: int
    shares: Mapping[str, tuple[float, float | None]]
    half: float | None
    top_tenth: float | None
    largest_group: float | None

    @property
    def sentence(self) -> str:
        """What a person should remember."""
        if self.half is None or self.top_tenth is None:
            return ""
        return (
            f"{self.half:.0%} of the completions carried half of the update, and the heaviest tenth "
            f"{self.top_tenth:.0%} of it."
        )


@dataclass(frozen=True)
class Otherwise:
    """One alternative, the mean over the steps that it was measured on.

    Args:
        name: A name of [`NAMES`][rlwatch.signals.decisions.NAMES].
        steps: How many.
        cosine: To the gradient that was; None where it never had a direction.
        ratio: Of its norm to that of the gradient that was.
    """

    name: str
    steps: int
    cosine: float | None
    ratio: float

    @property
    def words(self) -> str:
        """What it is."""
        return EXPLAINED[self.name]

    @property
    def verdict(self) -> str:
        """What it would have changed."""
        if self.cosine is None:
            return "no update at all"
        turned = self.cosine < TURNED
        scaled = not 1 / SCALED < self.ratio < SCALED
        if turned:
            return "another direction"
        return "the same direction, another size" if scaled else "nearly the same"


@dataclass(frozen=True)
class Measured:
    """All of it; empty where the run does not tell.

    Args:
        weighed: From each source that there is.
        drift: What the first steps' weights say will become of lengths.
        otherwise: The alternatives that were measured.
        part: Of which weights their gradients are.
    """

    weighed: Sequence[Weighed] = ()
    drift: Drift | None = None
    otherwise: Sequence[Otherwise] = ()
    part: str = ""

    def __bool__(self) -> bool:
        return bool(self.weighed or self.otherwise)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "drift": self.drift.to_dict() if self.drift else None,
            "weighed": [{**vars(w), "shares": {k: list(v) for k, v in w.shares.items()}} for w in self.weighed],
            "otherwise": [{**vars(o), "words": o.words, "verdict": o.verdict} for o in self.otherwise],
            "part": self.part,
        }


def measured(run: Run) -> Measured:
    """What a run's records say of it."""
    names = set(run.names)
    weighed = [_weighed(run.records, family) for family in FAMILIES if f"{family}/length_q4" in names]
    otherwise = [
        found for name in NAMES if f"counterfactual/{name}/norm_ratio" in names
        if (found := _otherwise(run.records, name)) is not None
    ]  # fmt: skip
    return Measured(weighed, first_drift(run), otherwise, str(run.info.get("counterfactual", "")))


def first_drift(run: Run) -> Drift | None:
    """What a token of long and of short completions weighed in the first steps; None where no run directory tells."""
    folder = Path(run.path) / "rollouts"
    shards = sorted(folder.glob("step-*.parquet"))[:FIRST] if folder.is_dir() else []
    if not shards:
        return None
    import numpy as np
    import polars as pl

    columns: list[Any] = []
    for shard in shards:
        try:
            table = pl.read_parquet(shard, columns=["weight", "advantage", "length"]).drop_nulls()
        except (OSError, pl.exceptions.PolarsError):  # torn, or another version's
            continue
        if len(table) and float(table["weight"].sum()) > 0:
            # within a step weights are shares of one: steps are made comparable by what their weight would be then
            scale = float((table["advantage"].abs() * table["length"]).sum())
            columns.append(table.select((pl.col("weight") * scale), "advantage", "length").to_numpy())
    if not columns:
        return None
    weights, advantages, lengths = np.concatenate(columns).astype(float).T
    return measured_drift(weights, advantages, lengths)


def _weighed(records: Sequence[StepRecord], family: str) -> Weighed:
    shares = {}
    of_quarters = [_mean(records, f"{family}/length_q{number}")[0] or 0.0 for number in (2, 3)]
    one_length = min(of_quarters) < ONE_LENGTH
    for kind, words in _KINDS:
        mean, _ = _mean(records, f"{family}/{kind}")
        if mean is not None and not (one_length and kind.startswith("length_")):
            shares[words] = (mean, _of_completions(records, kind))
    _, steps = _mean(records, f"{family}/length_q4")
    half, top, group = (_mean(records, f"{family}/{name}")[0] for name in ("half", "top_tenth", "largest_group"))
    return Weighed(family, steps, shares, half, top, group)


def _of_completions(records: Sequence[StepRecord], kind: str) -> float | None:
    if kind == "incorrect":
        correct, _ = _mean(records, "length/share_correct")
        return None if correct is None else 1 - correct
    return _mean(records, "length/truncated")[0] if kind == "truncated" else None


def _otherwise(records: Sequence[StepRecord], name: str) -> Otherwise | None:
    ratio, steps = _mean(records, f"counterfactual/{name}/norm_ratio")
    cosine, _ = _mean(records, f"counterfactual/{name}/cosine")
    return None if ratio is None else Otherwise(name, steps, cosine, ratio)


def _mean(records: Sequence[StepRecord], name: str) -> tuple[float | None, int]:
    found = [value for record in records if (value := record.metrics.get(name)) is not None and value == value]
    return (sum(found) / len(found), len(found)) if found else (None, 0)
