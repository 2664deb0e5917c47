"""low-diversity: siblings have become the same text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlwatch.detect.advice import FEWER_UPDATES, GO_BACK, MORE_EXPLORATION, RAISE_CLIP_HIGH
from rlwatch.detect.config import number_of, updates_of
from rlwatch.detect.deadness import Deadness
from rlwatch.detect.glance import Glance
from rlwatch.detect.level import Level
from rlwatch.detect.progress import PATIENCE, Progress
from rlwatch.detect.rule import CLEAR, NO_DATA, SOON, Finding, Hold, Quiet, Rule, Untold, finite, present
from rlwatch.detect.setting import Setting
from rlwatch.runs.records import Cause, Severity, StepRecord


class LowDiversity(Rule):
    """Of a group's completions, far fewer are different from each other than at first.

    Smoothed groups/unique is at half of what it was in its first rows or below, beyond its noise, and at most half of
    the completions are distinct. Short answers have few forms from the start, so the start is the measure:

    - warning: and 0.3 of the groups are stuck, or the reward has not gained for 50 steps, with less than half of the
      groups solved;
    - info: the reward still gains, or groups are solved, or a log does not tell whether they are.

    Says nothing before ten records with groups/unique, and about a record without it or with NaN.
    """

    name = "low-diversity"
    needs = ("groups/unique",)
    hold = SOON
    release = Hold(steps=20, records=3)
    symptom_of = ("non-finite", "entropy-collapse", "dead-groups")

    half_life = Setting(10.0, "optimizer steps", "convention: of the smoothing, as in reward-collapse", least=0.1)
    of_means = Setting(
        5.0,
        "optimizer steps",
        "calibration (made-up runs of even seeds): the same of rows of several steps, which are means already; with "
        "10, told a row or two later",
        least=0.1,
    )
    at_first = Setting(10, "records", "convention: a median of ten is not set by a wild one", least=1.0)
    fallen = Setting(
        0.5, "share of the start", "theory: half of the comparisons that a group's size pays for are gone", most=1.0
    )
    few = Setting(
        0.5, "share of completions", "theory: from here on more of the completions are copies than are not", most=1.0
    )
    noise = Setting(4.0, "standard errors", "calibration: as for every level that is looked at at each record")
    stuck = Setting(
        0.3, "share of groups", "calibration: as in dead-groups, where it flagged none of 12 good small runs", most=1.0
    )
    solved = Setting(0.5, "share of groups", "as in entropy-collapse: solved groups do not mind", most=1.0)

    def __init__(self, config: Mapping[str, Any] | None = None, settings: Mapping[str, object] | None = None) -> None:
        super().__init__(config, settings)
        self._unique, self._groups = (
            Level(self.half_life, first=int(self.at_first), of_means=self.of_means),
            Deadness(self.half_life),
        )
        self._progress = Progress()

    def update(self, record: StepRecord) -> Untold | Quiet:
        """See the class."""
        self._progress.update(record)
        groups = self._groups
        groups.update(record)
        unique = finite(record, "groups/unique")
        if unique is None:
            return NO_DATA
        mean = self._unique
        level, start = mean.update(record.step, unique), mean.start
        if start is None or level > (1 + self.fallen) / 2 * start:
            mean.keep()
        if start is None:
            return NO_DATA
        if level > self.few or level > self.fallen * start or start - level < self.noise * mean.error_of_move:
            return CLEAR
        open_ = groups.split and groups.solved < self.solved
        lost = self._progress.stalled(record.step) or groups.stuck >= self.stuck
        severity = Severity.WARNING if open_ and lost else Severity.INFO
        return Untold(severity, lambda: self._finding(severity, level, start, record))

    def may_find(self, log: Glance) -> bool:
        """See the base class."""
        unique = log.level("groups/unique", self.half_life, rows=1, of_means=self.of_means)
        start = log.at_first(log.values("groups/unique"), self.at_first)
        return bool(((unique <= self.few) & (unique <= self.fallen * start)).any())

    def _finding(self, severity: Severity, level: float, start: float, record: StepRecord) -> Finding:
        size = number_of(self.config, "num_generations")
        count = f" ({level * size:.1f} of {size:g})" if size is not None else ""
        return Finding(
            severity=severity,
            value=level,
            reference=start,
            message=f"{level:.0%} of a group's completions are distinct{count}, from {start:.0%} at first",
            evidence={
                "groups/unique": level,
                **present(record, "groups/solved", "groups/zero_std", "entropy/mean", "length/mean", "clip/high_rare"),
                "reward/mean": self._progress.level,
            },
            causes=self._causes(record),
            advice=[
                MORE_EXPLORATION,
                RAISE_CLIP_HIGH,
                *([FEWER_UPDATES] if updates_of(self.config) > 1 else []),
                GO_BACK,
            ],
        )

    def _causes(self, record: StepRecord) -> list[Cause]:
        causes, solved, stuck = [], self._groups.solved if self._groups.split else 0.0, self._groups.stuck
        if solved >= self.solved:
            causes.append(
                Cause(f"{solved:.0%} of the groups are solved: there is one right answer", {"groups/solved": solved})
            )
        temperature = number_of(self.config, "temperature")
        if temperature is not None and temperature < 1:
            causes.append(Cause(f"sampled at temperature {temperature:g}, which makes what is likely likelier"))
        updates, epsilon = updates_of(self.config), number_of(self.config, "epsilon_high")
        if updates > 1:
            bound = f" under epsilon_high={epsilon:g}" if epsilon is not None else ""
            text = f"{updates:g} updates a rollout{bound}: what is likely grows, what is rare is clipped"
            causes.append(Cause(text, present(record, "clip/high", "clip/high_rare")))
        if stuck >= self.stuck:
            text = f"siblings are alike: {stuck:.0%} of the groups earn one reward, neither the worst nor the best"
            causes.append(Cause(text, {"groups/stuck": stuck}))
        if self._progress.stalled(record.step):
            causes.append(Cause(f"the reward has not gained anything for at least {PATIENCE} steps"))
        return causes
