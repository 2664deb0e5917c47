"""clip-saturated: the clip cuts off most of the update."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlwatch.detect.advice import FEWER_UPDATES, LOWER_LEARNING_RATE, WIDER_CLIP
from rlwatch.detect.config import number_of, updates_of
from rlwatch.detect.glance import Glance
from rlwatch.detect.progress import Progress
from rlwatch.detect.rule import CLEAR, NO_DATA, SOON, Finding, Hold, Quiet, Rule, Untold, finite, present
from rlwatch.detect.setting import Setting
from rlwatch.detect.streaming import Baseline, Ewma
from rlwatch.runs.records import Advice, Cause, Severity, StepRecord

_OF_THIS_STEP = ("clip/high_rare", "groups/zero_std", "ratio/max", "kl/old")


class ClipSaturated(Rule):
    """The clip throws away more of the update than is applied, or is on its way there.

    With smoothed shares, cut = clip/low + clip/high: the tokens that have an advantage and whose gradient is cut.
    Together with `signal/active_tokens`, those that move the policy, they are all that have one, so
    lost = cut / (cut + active) is the share of a living update that is thrown away. Where that is not logged, as many
    are taken to have one as groups are not dead, 1 - groups/zero_std, or all.

    - warning: lost ≥ 0.5 and cut ≥ 0.2; or cut ≥ 0.12, five times what it was at first and twice what it was when the
      reward last gained (in 50 steps it has to gain 0.05 of its spread, see Progress);
    - info: cut ≥ 0.3.

    CISPO caps weights instead: tokens keep their gradient, and rising ones alone are counted, about half of those with
    an advantage. There lost is 2·cut, it is an info, and a warning only where the cap lies at 1 or lower, below the
    weight of a policy that has not moved. A record with neither share of clipped tokens says nothing; where only one
    of them is logged, the other counts as 0.
    """

    name = "clip-saturated"
    needs = ("clip/high",)
    hold = SOON
    release = Hold(steps=20, records=3)
    symptom_of = ("non-finite", "sampler-mismatch")

    half_life = Setting(
        10.0, "optimizer steps", "theory: about one rollout of 8 to 16 updates, over which the share goes up", least=0.1
    )
    of_means = Setting(
        5.0,
        "optimizer steps",
        "calibration (made-up runs of even seeds): the same of rows of several steps, which are means already; with "
        "10, told a row or two later",
        least=0.1,
    )
    at_first = Setting(10, "records", "convention: a median of ten is not set by a wild one", least=1.0)
    grown = Setting(
        0.12,
        "share of tokens",
        "calibration: PPO runs clip 0.1 to 0.3 (1707.06347); 0.15 was told a row later of made-up runs, 0.1 told of 15 "
        "of 75 trainings of the lab that were fine instead of 3",
        least=0.01,
        most=1.0,
    )
    since_gain = Setting(
        2.0,
        "times the share at the last gain",
        "convention: what it grew by while the reward still gained, the reward may have gained by",
        least=1.0,
    )
    gain_half_life = Setting(
        20.0, "optimizer steps", "theory: as that of the reward in Progress, so that both lag alike", least=0.1
    )
    times = Setting(
        5.0,
        "times the share at first",
        "convention: beyond what one rollout's share differs by from the next; where more is clipped from the start, "
        "that is the setting and no change",
        least=1.0,
    )
    most = Setting(
        0.5,
        "share of the update",
        "theory: from here on more of it is thrown away than is applied",
        least=0.01,
        most=1.0,
    )
    much = Setting(
        0.3,
        "share of tokens",
        "paper: PPO runs clip 0.1 to 0.3 (1707.06347), GSPO 0.15 by design (2507.18071)",
        most=1.0,
    )
    usual = Setting(
        0.2,
        "share of tokens",
        "paper: GSPO 0.15 by design (2507.18071); where hardly any group lives, such a share is no matter of the clip",
        most=1.0,
    )
    rising = Setting(
        0.5,
        "share",
        "theory: advantages add up to 0, so about half of the tokens that have one are to rise",
        least=0.01,
    )
    far = Setting(2.0, "ratio", "theory: a token twice as likely as when it was sampled is no small step", least=1.0)

    def __init__(self, config: Mapping[str, Any] | None = None, settings: Mapping[str, object] | None = None) -> None:
        super().__init__(config, settings)
        self._low, self._high, self._active, self._dead = (
            Ewma(self.half_life, of_means=self.of_means) for _ in range(4)
        )
        self._progress, self._slow = Progress(self.gain_half_life), Ewma(self.gain_half_life)
        self._gain_step, self._at_gain = -1, 0.0
        self._first = Baseline(int(self.at_first))
        self._caps = self.config.get("loss_type") == "cispo"
        self._cap = number_of(self.config, "epsilon_high")

    def update(self, record: StepRecord) -> Untold | Quiet:
        """See the class."""
        low, high = finite(record, "clip/low"), finite(record, "clip/high")
        if low is None and high is None:
            return NO_DATA
        cut = self._low.update(record.step, low or 0.0) + self._high.update(record.step, high or 0.0)
        active = finite(record, "signal/active_tokens")
        if active is not None:
            self._active.update(record.step, active)
        elif not self._active.weight:
            dead = finite(record, "groups/zero_std")
            if dead is not None:
                self._dead.update(record.step, dead)
        first = self._first.value
        if first is None:
            first = self._first.update((low or 0.0) + (high or 0.0))
        lost, grows = self._lost(cut), self._grows(record, cut, first)
        if not grows and (cut < self.usual or (lost < self.most and cut < self.much)):
            return CLEAR
        loses = (grows or lost >= self.most) and (not self._caps or (self._cap is not None and self._cap <= 1))
        severity = Severity.WARNING if loses else Severity.INFO
        return Untold(severity, lambda: self._finding(severity, cut, lost, first if grows else None, record))

    def _grows(self, record: StepRecord, cut: float, first: float | None) -> bool:
        """Whether it has grown from what it was at first, and since the reward last gained."""
        progress, slow = self._progress, self._slow.update(record.step, cut)
        progress.update(record)
        if progress.best_step != self._gain_step:
            self._gain_step, self._at_gain = progress.best_step, slow
        if first is None or cut < self.grown or progress.level is None:
            return False
        return cut >= self.times * first and cut >= self.since_gain * self._at_gain

    def may_find(self, log: Glance) -> bool:
        """See the base class."""
        return max(0.0, log.most("clip/low")) + max(0.0, log.most("clip/high")) >= min(self.usual, self.grown)

    def _lost(self, cut: float) -> float:
        if self._caps:
            return min(1.0, cut / self.rising)
        if cut <= 0:
            return 0.0
        if self._active.weight:
            return cut / (cut + self._active.level)
        return cut / max(cut, 1 - self._dead.level) if self._dead.weight else cut

    def _finding(self, severity: Severity, cut: float, lost: float, first: float | None, record: StepRecord) -> Finding:
        moves = f", and {self._active.level:.0%} move the policy" if self._active.weight else ""
        since = f", from {first:.2%} at first" if first is not None else ""
        what = f"{cut:.0%} of the tokens are clipped{since}{moves}: {lost:.0%} of the update is thrown away"
        if self._caps:
            what = f"{cut:.0%} of the tokens have their weight capped by CISPO, {lost:.0%} of those with an advantage"
        causes = self._causes(record)
        return Finding(
            severity=severity,
            value=lost,
            reference=self.most,
            message=what,
            evidence={**self._smoothed(record), **present(record, *_OF_THIS_STEP)},
            causes=[cause for cause, _ in causes],
            advice=list(dict.fromkeys([*(advice for _, advice in causes), LOWER_LEARNING_RATE])),
        )

    def _smoothed(self, record: StepRecord) -> dict[str, float | None]:
        """The shares that the message speaks of, of the metrics that are logged: a step's own would contradict it."""
        means = {"clip/high": self._high, "clip/low": self._low, "signal/active_tokens": self._active}
        return {name: mean.level for name, mean in means.items() if finite(record, name) is not None}

    def _causes(self, record: StepRecord) -> list[tuple[Cause, Advice]]:
        config, causes = self.config, []
        if self._caps and self._cap is not None and self._cap <= 1:
            text = f"CISPO caps the weight itself at epsilon_high={self._cap:g}: a policy that has not moved weighs 1"
            causes.append((Cause(text, present(record, "ratio/mean")), WIDER_CLIP))
        updates = updates_of(config)
        if updates > 1:
            text = f"{updates:g} updates a rollout: the later ones start where the clip already holds"
            causes.append((Cause(text, present(record, "rollouts/age", "kl/old")), FEWER_UPDATES))
        epsilon = number_of(config, "epsilon")
        if config.get("importance_sampling_level") == "sequence" and epsilon is not None:
            text = f"epsilon={epsilon:g} for one ratio a sequence, which moves less and is clipped as a whole"
            causes.append((Cause(text, present(record, "ratio/mean", "ratio/max")), WIDER_CLIP))
        ratio = finite(record, "ratio/max")
        if not self._caps and ratio is not None and ratio > self.far:
            text = f"the policy runs away from what was sampled: a ratio of up to {ratio:.3g}"
            causes.append(
                (Cause(text, present(record, "ratio/max", "ratio/mean", "kl/old", "lr")), LOWER_LEARNING_RATE)
            )
        if not causes:
            text = "the policy moves further between sampling and update than epsilon allows for"
            causes.append((Cause(text, present(record, "kl/old", "lr")), WIDER_CLIP))
        return causes
