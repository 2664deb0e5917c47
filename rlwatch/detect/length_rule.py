"""What length-explosion and length-collapse share: how long answers are, and what the reward does meanwhile."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rlwatch.detect.forecast import REAL
from rlwatch.detect.glance import Glance, only
from rlwatch.detect.level import Level
from rlwatch.detect.progress import PATIENCE, Progress
from rlwatch.detect.rule import SOON, Hold, Rule, finite, present
from rlwatch.detect.setting import Setting
from rlwatch.detect.sharing import Shared
from rlwatch.detect.streaming import Baseline, CountedEwma, Ewma
from rlwatch.runs.records import Cause, StepRecord

if TYPE_CHECKING:
    from rlwatch.detect.glance import Numbers


@dataclass(slots=True)
class Lengths(Shared):
    """The smoothed length, what it was at first and when the reward last gained; and the reward against its best.

    Args:
        half_life: Of the length's smoothing, in optimizer steps; the reward's is twice, its progress's four times that.
        at_first: Records that the start is the median of, and rewards before the best of them counts.
        calm: Times that a row may be as long as at first, or as short, to be one of those that show the noise.

    Attributes:
        level: The smoothed length; None where the record cannot tell, or not yet.
        newest: The record's own; in rows of single steps, halfway to it from the level.
        single: The rows are of single steps.
        start: What it was at first.
        at_gain: What it was when the reward last gained, smoothed as that reward is: both lag alike.
        logs: Of the logarithm of a row's length.
    """

    half_life: float
    at_first: int
    calm: float
    level: float | None = None
    newest: float = 0.0
    start: float = 0.0
    at_gain: float = 0.0
    gain_step: int = -1
    best: float | None = None  # of the smoothed reward, once it is a mean of more than a few
    logs: Level = field(init=False)
    single: bool = True
    _last: int | None = None
    progress: Progress = field(init=False)
    _length: Ewma = field(init=False)
    _slow: Ewma = field(init=False)
    _start: Baseline = field(init=False)
    _reward: CountedEwma = field(init=False)
    _variance: Ewma = field(init=False)
    _rewards: int = 0
    _lowest: float = 0.0  # of the smoothed reward, at most 0; and as it was at the best one
    _floor: float = 0.0
    _spread: float = 0.0
    _seen: int | None = None

    def __post_init__(self) -> None:
        self.logs = Level(self.half_life, first=self.at_first)
        self.progress = Progress(4 * self.half_life)
        self._length, self._slow, self._start = Ewma(self.half_life), Ewma(4 * self.half_life), Baseline(self.at_first)
        self._reward, self._variance = CountedEwma(2 * self.half_life), Ewma(8 * self.half_life)

    @property
    def key(self) -> tuple[object, ...]:
        """See the base class."""
        return self.half_life, self.at_first, self.calm

    @property
    def reward(self) -> float:
        """The smoothed reward."""
        return self._reward.level

    def update(self, record: StepRecord) -> None:
        """Take in a record; one that was seen changes nothing."""
        step = record.step
        if step == self._seen:
            return
        self._seen, self.level = step, None
        reward, length = finite(record, "reward/mean"), finite(record, "length/mean")
        if reward is not None:
            self._take_reward(step, reward, finite(record, "reward/std"))
            self.progress.update(record)
        if length is None or length < 0:
            return
        if length > 0:
            self._take_log(step, math.log(length))
        level, slow, start, progress = (
            self._length.update(step, length), self._slow.update(step, length), self._start.value, self.progress,
        )  # fmt: skip
        if start is None:
            start = self._start.update(length)
        if progress.best_step != self.gain_step and progress.best is not None:
            self.gain_step, self.at_gain = progress.best_step, slow
        if start is not None and start > 0 and self.at_gain > 0 and reward is not None:
            self.level, self.start = level, start
            self.newest = (level + length) / 2 if self.single else length

    def _take_log(self, step: int, value: float) -> None:
        logs = self.logs
        logs.update(step, value)
        self.single = self._last is None or step - self._last <= 1
        self._last = step
        if logs.start is None or abs(logs.now - logs.start) < math.log(self.calm):
            logs.keep()

    def _take_reward(self, step: int, reward: float, std: float | None) -> None:
        smoothed = self._reward
        if self._rewards:
            off = reward - smoothed.level
            self._variance.update(step, off * off)
        self._rewards += 1
        level = smoothed.update(step, reward)
        if level < self._lowest:
            self._lowest = level
        if self._rewards >= self.at_first and (self.best is None or level > self.best):
            self.best, self._floor = level, self._lowest
        if std is not None and std > self._spread:
            self._spread = std

    def lost(self, noise: float) -> float:
        """How much of the best reward is gone, where that is so many times its error; else 0.

        Below 0, it is of what was gained, or of twice the rewards' spread where that is more.
        """
        if self.best is None or self.best <= self._floor:
            return 0.0
        scale = self.best if self._floor == 0 else max(self.best - self._floor, 2 * self._spread)
        fallen = self.best - self._reward.level
        # Both the level and the best carry an error of this size.
        error = (2 * self._variance.level / self._reward.effective_count) ** 0.5
        return fallen / scale if fallen > noise * error else 0.0


def tokens(count: float) -> str:
    """A mean number of tokens, for people."""
    return f"{count:.0f}" if count >= 100 else f"{count:.3g}"


class LengthRule(Rule):
    """What both have."""

    needs = ("length/mean", "reward/mean")
    hold = SOON
    release = Hold(steps=20, records=3)

    half_life = Setting(
        5.0,
        "optimizer steps",
        "calibration (made-up runs of even seeds): with 10, a mean was two rows behind where a row stands for 5 steps",
        least=0.1,
    )
    moved = Setting(
        1.25,
        "times",
        "convention: what it grew by while the reward still gained, it may have gained by; a row within it is calm",
        least=1.01,
    )
    slipping = Setting(
        0.1,
        "share of the best reward",
        "convention: beyond its noise, a fall of that size shows sooner than a stall that nothing is gained",
        most=1.0,
    )
    at_first = Setting(10, "records", "convention: a median of ten is not set by a wild one", least=1.0)
    lost = Setting(
        1 / 3,
        "share of the best reward",
        "calibration: the mark from which reward-collapse warns; half of it, its critical one, found 9 of 9 collapses "
        "of real GRPO runs",
        most=1.0,
    )
    scatter = Setting(
        6.0,
        "deviations of a row",
        "calibration: of lengths that wander (± 0.2 of the logarithm, autocorrelation 0.9) four blamed 7 of 60 runs in "
        "rows of one step, six 2, and neither was later",
    )
    noise = Setting(REAL, "standard errors", "theory: as for a trend that is looked at in every record")

    def __init__(self, config: Mapping[str, Any] | None = None, settings: Mapping[str, object] | None = None) -> None:
        super().__init__(config, settings)
        self._lengths = Lengths(self.half_life, int(self.at_first), self.moved)
        self._moved_since: int | None = None

    def _rushes(self, step: int, times: float, since_gain: float, to: float, by: float) -> int | None:
        """Since when a row's length has left what it was, where it has got to a mark within a stall's time; else None.

        Args:
            step: The row's.
            times: By how much it is longer than at first, or shorter.
            since_gain: The same, since the reward last gained.
            to: The mark of the first.
            by: The mark of the second.
        """
        since = self._moved_since
        if times < self.moved or since is None:
            self._moved_since = step if times >= self.moved else None
            return None
        if times < to or since_gain < by or step - since > PATIENCE:
            return None
        return since if math.log(times) > self.scatter * self._lengths.logs.noise[0] else None

    def _level_and_start(self, log: Glance) -> tuple[Numbers, float]:
        """The smoothed length and what it was at first, as `Lengths` has them, of a whole log."""
        length = log.values("length/mean")
        start = log.at_first(only(length, length >= 0), self.at_first)
        return log.level("length/mean", self.half_life, least=0.0), start

    def _rush_words(self, lost: float) -> str:
        lengths = self._lengths
        now, start, gain = lengths.newest, lengths.start, lengths.at_gain
        return (
            f"answers have {tokens(now)} tokens, {now / start:.2g} times {tokens(start)} at the beginning, and "
            f"{now / gain:.2g} times {tokens(gain)} when the reward last gained, at step {lengths.gain_step}"
            + (f"; {self._reward_words(lost)}" if lost > 0 else "")
        )

    def _reward_words(self, lost: float) -> str:
        reward, best = self._lengths.reward, self._lengths.best
        if lost > 0 and best is not None:
            return f"the reward is down to {reward:.3g}, from {best:.3g}"
        return f"the reward is {reward:.3g} and has not gained since step {self._lengths.gain_step}"

    def _evidence(self, record: StepRecord, level: float) -> dict[str, float | None]:
        names = ("length/truncated", "length/correct", "length/incorrect", "entropy/mean", "kl/ref")
        return {"length/mean": level, "reward/mean": self._lengths.reward, **present(record, *names)}

    def _paid_for_length(self, record: StepRecord) -> list[Cause]:
        parts = {n: v for n, v in record.metrics.items() if n.startswith("reward/") and "length" in n.lower()}
        if not parts:
            return []
        name, value = next(iter(parts.items()))
        given = "" if value is None else f", {value:.3g} now"
        return [Cause(f"length itself is rewarded or fined: {name}{given}", parts)]
