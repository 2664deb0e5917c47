"""entropy-explosion: the policy comes apart, and what it earns goes with it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rlwatch.detect.advice import (
    ADAPTIVE_ENTROPY,
    CHECK_REWARD,
    FEWER_UPDATES,
    GO_BACK,
    LESS_EXPLORATION,
    LOWER_CLIP_HIGH,
    LOWER_ENTROPY_BONUS,
    LOWER_LEARNING_RATE,
    LOWER_TEMPERATURE,
    SAME_SAMPLER,
)
from rlwatch.detect.config import number_of, updates_of
from rlwatch.detect.deadness import Deadness
from rlwatch.detect.glance import Glance
from rlwatch.detect.level import Level
from rlwatch.detect.progress import GAIN, PATIENCE, Progress
from rlwatch.detect.rule import CLEAR, NO_DATA, Finding, Hold, Quiet, Rule, Untold, finite, present
from rlwatch.detect.setting import Setting
from rlwatch.detect.streaming import Baseline
from rlwatch.runs.records import Advice, Cause, Severity, StepRecord


class EntropyExplosion(Rule):
    """Entropy has doubled, and the reward does not follow.

    The logarithm of the entropy, smoothed, stands at twice its lowest level so far or more, by more than its noise: a
    run that sharpened first and then came apart is measured from where it was sharpest. Entropies below 0.1 nats count
    as that. By itself this is exploration, so it takes the reward as a second witness:

    - critical: the smoothed reward has lost a quarter of its best, beyond its noise, and entropy has not come back;
    - warning: it has lost a twentieth, beyond its noise; or entropy is at twice its start too, the reward has gained
      nothing since the rise began, 50 steps ago or more, and could have: not half of the groups are solved, and its
      best is less than nine tenths of what a right answer earns;
    - nothing: otherwise, and where more answers are correct (`length/share_correct`), beyond noise, than when entropy
      was lowest: the policy leaves a safe answer for a right one, which a sum of rewards may not show yet.

    Noise is what single rows scattered by before. Says nothing about a record without an entropy, or with one that is
    NaN, and nothing while there has been no reward; a record without a reward is judged by the rewards before it.
    """

    name = "entropy-explosion"
    needs = ("entropy/mean", "reward/mean")
    hold = Hold(steps=5, records=2)
    release = Hold(steps=40, records=3)
    symptom_of = ("non-finite", "reward-collapse")

    at_first = Setting(10, "records", "convention: a median of ten is not set by a wild one", least=1.0)
    half_life = Setting(
        5.0,
        "optimizer steps",
        "convention: half of that of reward-collapse, for it is to be critical before that one is",
        least=0.1,
    )
    slow = Setting(
        2.0,
        "half-lives",
        "theory: of the levels whose best and lowest are compared with; the extremes of a faster one are noise",
        least=1.0,
    )
    rise = Setting(
        2.0,
        "times the reference",
        "calibration: 8 of 9 real collapses rose above twice their start before the reward went, 6 of 37 survivors did",
        least=1.0,
    )
    noise = Setting(
        4.0, "standard errors", "calibration: of a reward that is looked at at each record; see forecast.REAL"
    )
    noise_of_second = Setting(
        2.0,
        "standard errors",
        "theory: the fall of the reward is beyond chance by itself, and one look at entropy says what fell",
    )
    floor = Setting(
        0.1,
        "nats per token",
        "theory: at a mean entropy H at most 1 - exp(-H) of the tokens are other than the likeliest, here one in ten",
        least=1e-6,
    )
    lost = Setting(
        0.25,
        "share of the best reward",
        "theory: half of what reward-collapse waits for, since here entropy bears witness too",
        most=1.0,
    )
    back = Setting(
        0.5,
        "share of the rise, in logarithms",
        "theory: entropy that is nearer to where it came from than to its peak is on its way back",
        most=1.0,
    )
    patience = Setting(PATIENCE, "optimizer steps", "as in Progress: in so many a run that gets on has gained")
    gain = Setting(GAIN, "share of the best reward", "as in Progress: what is a gain worth the name", most=1.0)
    longer = Setting(1.25, "times the length", "convention: from here on the length is named as a cause", least=1.0)
    near_best = Setting(
        0.9,
        "share of what a right answer earns",
        "as in reward-stall: no gain can be asked for from there on",
        most=1.0,
    )
    solved = Setting(0.5, "share of groups", "as in entropy-collapse: solved groups do not mind", most=1.0)

    def __init__(self, config: Mapping[str, Any] | None = None, settings: Mapping[str, object] | None = None) -> None:
        super().__init__(config, settings)
        self._entropy, self._reward = Level(self.half_life), Level(self.half_life)
        slow = self.slow * self.half_life
        self._slow_entropy, self._slow_reward = Level(slow, self.slow), Level(slow, self.slow)
        self._right, self._right_at_lowest = Level(slow, self.slow), math.nan
        self._groups, self._progress = Deadness(2 * self.half_life), Progress()
        self._length = math.nan  # the last one
        self._start = Baseline(int(self.at_first))
        self._rise_step: int | None = None  # where entropy left its calm; and the best slow reward by then
        self._best_at_rise = math.inf
        self._first_reward: int | None = None  # steps
        self._first_entropy: int | None = None
        self._lowest: float | None = None
        self._lowest_step = 0
        self._length_at_lowest = math.nan
        self._peak = -math.inf
        self._best: float | None = None
        self._worst = self._worst_at_best = 0.0  # of the smoothed reward, at most 0
        self._slipping = 0.0  # half of what has to be lost of that best
        self._log_rise = math.log(self.rise)

    def update(self, record: StepRecord) -> Untold | Quiet:
        """See the class."""
        step = record.step
        reward, entropy = finite(record, "reward/mean"), finite(record, "entropy/mean")
        if reward is not None:
            self._take_reward(step, reward)
        length = finite(record, "length/mean")
        self._groups.update(record)
        self._progress.update(record)
        right = finite(record, "length/share_correct")
        if right is not None:
            self._right.update(step, right)
            self._right.keep()
        if length is not None:
            self._length = length
        if entropy is None:
            return NO_DATA
        level, lowest = self._take_entropy(step, entropy), self._lowest
        if level is None or lowest is None or self._best is None:
            return NO_DATA
        risen = level - lowest
        if risen < self._log_rise or risen < self.noise_of_second * self._entropy.error:
            self._peak = -math.inf
            return CLEAR
        self._peak = max(self._peak, level)
        severity = self._severity(step, level, risen)
        return CLEAR if severity is None else Untold(severity, lambda: self._finding(severity, level, record))

    def may_find(self, log: Glance) -> bool:
        """See the base class."""
        import numpy as np

        values = np.log(np.maximum(log.values("entropy/mean"), self.floor))
        level = log.smoothed(values, self.half_life, rows=1)
        slow = log.smoothed(values, self.slow * self.half_life, rows=self.slow)
        there = values == values
        there[there] = log.steps[there] >= log.steps[there][:1] + self.half_life
        return bool((level[there] - np.minimum.accumulate(slow[there]) >= self._log_rise - 1e-9).any())

    def _take_reward(self, step: int, reward: float) -> None:
        mean, best = self._reward, self._best
        level, slow = mean.update(step, reward), self._slow_reward.update(step, reward)
        if best is None or best - level < self._slipping:
            mean.keep()
        if slow < self._worst:
            self._worst = slow
        if self._first_reward is None:
            self._first_reward = step
        if step - self._first_reward < self.half_life:
            return  # a mean of a few values is still as noisy as they are
        if best is None or slow > best:
            self._best, self._worst_at_best = slow, self._worst
            self._slipping = self.lost / 2 * max(slow - self._worst, -slow)

    def _take_entropy(self, step: int, entropy: float) -> float | None:
        """The smoothed logarithm, once it is one."""
        mean, lowest = self._entropy, self._lowest
        value = math.log(entropy if entropy > self.floor else self.floor)
        level, slow = mean.update(step, value), self._slow_entropy.update(step, value)
        if self._start.value is None:
            self._start.update(value)
        if lowest is None or level - lowest < self._log_rise / 2:
            mean.keep()
            self._rise_step = None
        elif self._rise_step is None and self._best is not None:
            self._rise_step, self._best_at_rise = step, self._best
        if self._first_entropy is None:
            self._first_entropy = step
        if step - self._first_entropy < self.half_life:
            return None
        if lowest is None or slow < lowest:
            self._lowest, self._lowest_step = slow, step
            self._length_at_lowest, self._right_at_lowest = self._length, self._right.now
        return level

    def _scale(self) -> float:
        """What there is to lose: the best reward; with rewards below 0, what was gained and clearly more than noise."""
        assert self._best is not None
        gained = self._best - self._worst_at_best
        return gained if self._worst_at_best == 0 else max(gained, 2 * self.noise * self._reward.noise[0])

    def _severity(self, step: int, level: float, risen: float) -> Severity | None:
        assert self._lowest is not None
        assert self._best is not None
        stays = risen >= (1 - self.back) * (self._peak - self._lowest)
        fallen = self._best - self._reward.now
        if stays and fallen > max(self.noise * self._reward.error, self.gain * self._scale()):
            if self._gets_right():
                return None
            return Severity.CRITICAL if fallen >= self.lost * self._scale() else Severity.WARNING
        start, done = self._start.value, self._groups.split and self._groups.solved >= self.solved
        done = done or self._progress.is_near_best(self._best, self.near_best)
        if not stays or done or start is None or self._rise_step is None:
            return None
        if level - start < max(self._log_rise, self.noise * self._entropy.error) or self._gets_right():
            return None
        paid = self._slow_reward.now - self._best_at_rise > self.gain * self._scale()
        return Severity.WARNING if not paid and step - self._rise_step >= self.patience else None

    def _gets_right(self) -> bool:
        """More answers are correct than when entropy was lowest, as far as that is known."""
        return self._right.now - self._right_at_lowest > self.noise_of_second * self._right.error

    def _finding(self, severity: Severity, level: float, record: StepRecord) -> Finding:
        assert self._lowest is not None
        assert self._best is not None
        now, lowest, reward = math.exp(level), math.exp(self._lowest), self._reward.now
        slipped = self._best - reward > self.noise * self._reward.error
        witness = f"is down to {reward:.3g} from {self._best:.3g}" if slipped else f"does not gain ({reward:.3g})"
        causes = self._causes(now, lowest, record)
        return Finding(
            severity=severity,
            value=now,
            reference=lowest,
            message=(
                f"entropy is {now / lowest:.1f} times what it was at step {self._lowest_step} "
                f"({now:.3g} nats per token, from {lowest:.3g}), and the reward {witness}"
            ),
            evidence={
                **present(record, "entropy/mean", "entropy/p90", "entropy/top20", "clip/high_rare", "kl/ref", "lr"),
                "reward/mean": reward,
                "best reward/mean": self._best,
            },
            causes=[cause for cause, _ in causes],
            advice=list(dict.fromkeys([*(advice for _, advice in causes), GO_BACK, CHECK_REWARD, LOWER_LEARNING_RATE])),
        )

    def _causes(self, now: float, lowest: float, record: StepRecord) -> list[tuple[Cause, Advice]]:
        config, causes = self.config, []
        surprisal, entropy = finite(record, "surprisal/mean"), finite(record, "entropy/mean")
        evidence = present(record, "surprisal/mean", "entropy/mean", "sampler/ratio_mean", "sampler/logp_gap_mean")
        if surprisal is not None and entropy is not None and surprisal > self.rise * max(entropy, self.floor):
            text = f"what is sampled is not the policy's: surprisal {surprisal:.3g} nats, entropy {entropy:.3g}"
            causes.append((Cause(text, evidence), SAME_SAMPLER))
        bonus = number_of(config, "entropy_coef")
        if bonus is not None and bonus > 0:
            kind = "an adaptive" if config.get("use_adaptive_entropy") else "a fixed"
            text = f"{kind} entropy bonus (entropy_coef={bonus:g}) pays for entropy"
            causes.append((Cause(text), LOWER_ENTROPY_BONUS))
        low, high = number_of(config, "epsilon"), number_of(config, "epsilon_high")
        if low is not None and high is not None and high > low and config.get("loss_type") != "cispo":
            text = f"epsilon_high={high:g} above epsilon={low:g}: what is rare may grow by more than it may shrink"
            causes.append((Cause(text, present(record, "clip/high", "clip/low", "clip/high_rare")), LOWER_CLIP_HIGH))
        length, before = self._length, self._length_at_lowest
        if length > self.longer * before:
            text = f"entropy and length rise together: {length:.4g} tokens, from {before:.4g}"
            causes.append((Cause(text, {"length/mean": length}), LESS_EXPLORATION))
        temperature = number_of(config, "temperature")
        if temperature is not None and temperature > 1:
            causes.append((Cause(f"sampled at temperature {temperature:g}"), LOWER_TEMPERATURE))
        if not causes:
            held = ", and no KL term holds it (beta=0)" if config.get("beta") == 0 else ""
            text = f"the policy comes apart: entropy rose {now / lowest:.1f}-fold since it was lowest{held}"
            causes.append((Cause(text, present(record, "entropy/mean", "kl/ref")), ADAPTIVE_ENTROPY))
        updates = updates_of(config)
        if updates > 1:
            text = f"{updates:g} updates a rollout take the policy far from what was sampled"
            causes.append((Cause(text, present(record, "kl/old", "ratio/max")), FEWER_UPDATES))
        return causes
