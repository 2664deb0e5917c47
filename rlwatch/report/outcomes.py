"""What came of one run, in the few numbers by which runs are compared; each is None where the log does not tell."""

from __future__ import annotations

from dataclasses import dataclass

from rlwatch.detect.streaming import Ewma
from rlwatch.report.analysis import ESSENTIAL, Analysis
from rlwatch.report.grouping import seed_of
from rlwatch.report.sentences import first_critical
from rlwatch.report.waste import completions_a_step, finite
from rlwatch.runs.records import Run

HALF_LIFE = 10.0
"""Optimizer steps; a smoothed reward counts once there are as many: a mean of a few values is as noisy as they are."""
LAST = 0.1
"""The final reward is the mean over this last share of the steps."""


@dataclass(frozen=True)
class Outcome:
    """One run's numbers.

    Args:
        run: Its name.
        path: Where it was read.
        seed: Its seed, of the configuration or the name.
        verdict: Of the analysis.
        first_step: Of the records.
        last_step: Of the records.
        final_reward: Mean of reward/mean over the last tenth of the steps.
        best_reward: Highest exponentially smoothed reward/mean (half-life of 10 steps), from the tenth step on.
        collapse_step: The step at which the first critical alert was told.
        collapse_known: Whether the log has enough for a collapse to be seen; a run in which none was is then known to
            have held until its last step.
        wasted: Share of the generated tokens (or of the groups) that taught nothing.
        curve: (step, smoothed reward, generated tokens so far or None), from the tenth step on.
    """

    run: str
    path: str
    seed: int | None
    verdict: str
    first_step: int | None
    last_step: int | None
    final_reward: float | None
    best_reward: float | None
    collapse_step: int | None
    collapse_known: bool
    wasted: float | None
    curve: tuple[tuple[int, float, float | None], ...] = ()

    @property
    def counts_tokens(self) -> bool:
        """Whether the log tells how many tokens were generated, up to its end."""
        return bool(self.curve) and self.curve[-1][2] is not None

    def spent_to_reach(self, level: float, *, in_tokens: bool) -> tuple[float, bool] | None:
        """What had been spent when the smoothed reward first was at this level, and True; at the end, and False.

        Args:
            level: The reward.
            in_tokens: In generated tokens, of a run that counts them; else in steps.

        Returns:
            None where there is no reward.
        """
        for step, reward, tokens in self.curve:
            if reward >= level:
                return (tokens or 0.0) if in_tokens else float(step), True
        return ((self.curve[-1][2] or 0.0) if in_tokens else float(self.curve[-1][0]), False) if self.curve else None


def outcome(analysis: Analysis) -> Outcome:
    """What came of a run."""
    run = analysis.run
    collapse = first_critical(analysis)
    curve = _curve(run)
    return Outcome(
        run=run.name,
        path=run.path,
        seed=seed_of(run),
        verdict=analysis.verdict,
        first_step=run.records[0].step if run.records else None,
        last_step=run.records[-1].step if run.records else None,
        final_reward=_final_reward(run),
        best_reward=max((reward for _, reward, _ in curve), default=None),
        collapse_step=collapse,
        collapse_known=bool(run.records) and (collapse is not None or not analysis.unchecked.keys() >= ESSENTIAL),
        wasted=None if analysis.waste is None else analysis.waste.share,
        curve=curve,
    )


def _final_reward(run: Run) -> float | None:
    if not run.records:
        return None
    first, last = run.records[0].step, run.records[-1].step
    begin = last - LAST * (last - first + 1)
    found = [v for r in run.records if r.step > begin and (v := finite(r, "reward/mean")) is not None]
    return sum(found) / len(found) if found else None


def _curve(run: Run) -> tuple[tuple[int, float, float | None], ...]:
    """The tokens are Σ length/mean · completions a step; None from the first row on that has no length."""
    smooth, found = Ewma(HALF_LIFE), []
    completions = completions_a_step(run)
    tokens: float | None = 0.0 if completions is not None else None
    before, first = 0, None
    for record in run.records:
        length = finite(record, "length/mean")
        known = tokens is not None and completions is not None and length is not None
        tokens = tokens + length * completions * max(1, record.step - before) if known else None  # type: ignore[operator]
        before = record.step
        reward = finite(record, "reward/mean")
        if reward is None:
            continue
        first = record.step if first is None else first
        level = smooth.update(record.step, reward)
        if record.step - first + 1 >= HALF_LIFE:
            found.append((record.step, level, tokens))
    return tuple(found)
