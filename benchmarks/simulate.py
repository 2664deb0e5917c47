"""Made-up runs whose story is known: what fails, from which step on, and what only looks like it.

A run is drawn group by group. At every optimizer step some prompts get a success rate from a Beta distribution around
the run's own curve, their completions succeed or not, and rewards, deviations and dead groups follow from that, so that
they agree with each other as they do in a log. A batch's difficulty wanders with an autocorrelation of 0.3 to 0.8, or
as real runs did around their trend (blocks of ten rows). A row that stands for several steps is their mean, except for
the gradient norm, which is that of the last of them. Half of the runs log no KL.

The share of stuck groups, entropy, length and so on follow curves that are made up, and their noise is not all that
real logs have. What a rule does here shows what it can do at best.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rlwatch.runs.records import StepRecord

Array = np.ndarray

LAYOUTS = ((200, 5), (400, 1), (600, 10))
"""Optimizer steps, and how many of them a row stands for."""

FULL = (
    "entropy/mean", "reward/mean", "reward/std", "groups/solved", "groups/failed", "groups/stuck", "groups/zero_std",
    "groups/reward_std", "advantage/mean", "grad/norm", "loss", "lr", "kl/ref", "length/mean", "length/truncated",
    "sampler/ratio_mean",
)  # fmt: skip
TRL = (
    "entropy/mean", "reward/mean", "reward/std", "groups/zero_std", "grad/norm", "loss", "lr", "kl/ref", "length/mean",
    "length/truncated", "sampler/ratio_mean",
)  # fmt: skip
VERL = ("entropy/mean", "reward/mean", "advantage/mean", "grad/norm", "loss", "lr", "length/mean", "length/truncated")
LOGGERS: Mapping[str, tuple[str, ...]] = {"full": FULL, "trl": TRL, "verl": VERL}
"""What each way to log has: everything, dead groups undivided, no groups at all."""

GONE = 0.1
"""The mean reward of four rows below which it is a fact that it is gone, from the first of them on."""

STUCK = 0.9
"""The mean share of stuck groups in four rows from which a collapsed entropy is a fact: nine in ten teach nothing."""

ONE_ROW, TWENTY_ROWS = 1, 20
"""How long after the event an alarm is still in time: a collapse is due by the next row; what is dead or misconfigured
within twenty rows, since before it there is nothing to see."""


@dataclass(frozen=True)
class Simulated:
    """A made-up run.

    Args:
        kind: Its class, a key of `KINDS`.
        seed: Even ones are for tuning, odd ones for testing.
        logger: A key of `LOGGERS`.
        every: Steps a row stands for.
        records: Its rows.
        rules: The rules any of which is right; none where the run is fine.
        onset: The first step at which anything is other than in a good run; None where the run is fine.
        event: The step from which the failure is a fact.
        due: The last step at which an alarm is in time.
        cause: A regular expression that the first cause has to match, or None where no cause is asked for.
        config: The trainer's, as far as a log tells it.
    """

    kind: str
    seed: int
    logger: str
    every: int
    records: Sequence[StepRecord]
    rules: tuple[str, ...] = ()
    onset: int | None = None
    event: int | None = None
    due: int | None = None
    cause: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fails(self) -> bool:
        """Whether it is of a failure class."""
        return bool(self.rules)

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.kind}/{self.logger}/{self.seed}/every{self.every}"


class Noise:
    """Where unit noise comes from: an AR(1), or the residuals of real runs in blocks.

    Args:
        residuals: Of each real run one series of mean 0 and deviation 1; none for AR(1).
    """

    BLOCK = 10

    def __init__(self, residuals: Sequence[Array] = ()) -> None:
        self._residuals = [r for r in residuals if len(r) >= 2 * self.BLOCK]

    def __len__(self) -> int:
        """How many real series there are."""
        return len(self._residuals)

    @property
    def real(self) -> bool:
        """Whether it comes from real runs."""
        return bool(self._residuals)

    def draw(self, rng: np.random.Generator, steps: int, every: int) -> Array:
        """One value a step. Real residuals are those of rows, so there the steps of a row share theirs."""
        if not self._residuals:
            phi = rng.uniform(0.3, 0.8)
            shocks = rng.normal(0, math.sqrt(1 - phi**2), steps)
            values = np.empty(steps)
            level = rng.normal()
            for i, shock in enumerate(shocks):
                level = phi * level + shock
                values[i] = level
            return values
        rows = -(-steps // every)
        blocks: list[Array] = []
        while sum(map(len, blocks)) < rows:
            series = self._residuals[rng.integers(len(self._residuals))]
            start = rng.integers(len(series) - self.BLOCK + 1)
            blocks.append(series[start : start + self.BLOCK])
        return np.repeat(np.concatenate(blocks)[:rows], every)[:steps]


def residual(values: Sequence[float], window: int = 9) -> Array:
    """What a series' centred moving mean leaves, scaled to a deviation of 1; empty where that is nothing."""
    series = np.asarray(values, dtype=float)
    kernel = np.ones(window)
    smooth = np.convolve(series, kernel, "same") / np.convolve(np.ones(len(series)), kernel, "same")
    left = series - smooth
    spread = left.std()
    return (left - left.mean()) / spread if spread > 1e-9 else left[:0]


@dataclass
class _Plan:
    """The curves of a run, one value a step."""

    success: Array
    entropy: Array  # as a multiple of its start
    stuck: Array
    truncated: Array
    length: Array
    ratio: Array
    frozen: Array  # no gradient
    still: bool = False  # and none since the start, so the policy is the reference
    alone: bool = False  # groups of one
    broken: tuple[str, int] | None = None  # metric and step from which it is NaN
    rules: tuple[str, ...] = ()
    onset: int | None = None
    event: int | None = None
    event_row: Callable[[Mapping[str, Array]], Array] | None = None  # else: of each row, whether it shows the failure
    grace: int = ONE_ROW
    cause: str | None = None
    cause_loggers: tuple[str, ...] = ("full", "trl", "verl")  # in the others nothing could tell
    logs_kl: bool = True
    wander: float = 0.25  # of a batch's difficulty, in logits
    prompts: int = 16
    group: int = 8
    alike: float = 2.0  # how alike prompts are: the Beta distribution's a + b
    scale: tuple[float, float] = (1.0, 0.0)  # of the reward: times, plus


def ramp(steps: int, onset: float, over: float, start: float, end: float) -> Array:
    """A smooth way from one level to another, at the steps 1 to `steps`."""
    x = np.clip((np.arange(1, steps + 1) - onset) / max(over, 1e-9), 0, 1)
    return start + (end - start) * x * x * (3 - 2 * x)


def _plan(rng: np.random.Generator, steps: int) -> _Plan:
    """A run that learns: the reward rises by a good part, entropy falls to a third to two thirds."""
    flat = np.ones(steps)
    begin, end = rng.uniform(0.25, 0.45), rng.uniform(0.6, 0.8)
    return _Plan(
        success=ramp(steps, 0, steps * rng.uniform(0.5, 0.9), begin, end),
        entropy=ramp(steps, 0, steps * rng.uniform(0.5, 0.9), 1.0, rng.uniform(0.35, 0.7)),
        stuck=flat * rng.uniform(0.0, 0.08),
        truncated=flat * rng.uniform(0.0, 0.1),
        length=flat * rng.uniform(80, 900),
        ratio=flat,
        frozen=flat < 0,
        logs_kl=bool(rng.random() < 0.5),
    )


def _four_rows(values: Array) -> Array:
    """The mean of each row and the three after it."""
    return np.convolve(values, np.ones(4) / 4, "valid")


def _is_stuck(rows: Mapping[str, Array]) -> Array:
    return _four_rows(rows["groups/stuck"]) >= STUCK


def _is_gone(rows: Mapping[str, Array]) -> Array:
    return _four_rows(rows["reward/mean"]) < GONE


def _entropy_collapse(rng: np.random.Generator, steps: int) -> _Plan:
    plan = _plan(rng, steps)
    onset, over = steps * rng.uniform(0.2, 0.4), steps * rng.uniform(0.25, 0.4)
    level = rng.uniform(0.35, 0.5)  # of the safe answer, 0.5, and what is left of the others
    plan.success = ramp(steps, 0, onset, level - 0.1, level)
    plan.stuck = ramp(steps, onset, over, float(plan.stuck[0]), rng.uniform(0.94, 0.99))
    plan.entropy = ramp(steps, onset * 0.6, over, 1.0, rng.uniform(0.02, 0.15))
    plan.rules, plan.cause = ("entropy-collapse", "dead-groups"), "alike|updates a rollout|nothing left to compare"
    plan.onset, plan.event_row = int(onset * 0.6), _is_stuck
    return plan


def _reward_collapse(sudden: bool, entropy_rises: bool) -> Callable[[np.random.Generator, int], _Plan]:
    def make(rng: np.random.Generator, steps: int) -> _Plan:
        plan = _plan(rng, steps)
        onset = steps * rng.uniform(0.35, 0.6)
        over = rng.uniform(4, 12) if sudden else steps * rng.uniform(0.15, 0.25)
        plan.success = plan.success * ramp(steps, onset, over, 1.0, rng.uniform(0.0, 0.04))
        if entropy_rises:
            plan.entropy = plan.entropy * ramp(steps, onset - 0.5 * over, over, 1.0, rng.uniform(4, 15))
            plan.cause = "came apart"
        else:
            plan.entropy = np.ones(steps) * float(plan.entropy[int(onset)])
            plan.cause = "moved rather than broke"
        plan.rules = ("reward-collapse",)
        plan.onset, plan.event_row = int(onset - 0.5 * over * entropy_rises), _is_gone
        return plan

    return make


def _failed_from_start(rng: np.random.Generator, steps: int) -> _Plan:
    plan = _plan(rng, steps)
    plan.success, plan.stuck = np.zeros(steps), np.zeros(steps)
    plan.entropy = np.ones(steps)
    plan.rules = ("dead-groups",)
    plan.cause, plan.cause_loggers = "too hard", ("full",)
    plan.onset = plan.event = 1
    plan.grace = TWENTY_ROWS
    return plan


def _failed_later(rng: np.random.Generator, steps: int) -> _Plan:
    """Harder prompts come in, of which none is ever solved."""
    plan = _plan(rng, steps)
    onset = int(steps * rng.uniform(0.35, 0.6))
    gone = np.arange(1, steps + 1) >= onset
    plan.success, plan.stuck = np.where(gone, 0.0, plan.success), np.where(gone, 0.0, plan.stuck)
    plan.rules = ("dead-groups", "reward-collapse")
    plan.cause, plan.cause_loggers = "too hard", ("full",)
    plan.onset = plan.event = onset
    plan.grace = TWENTY_ROWS
    return plan


def _truncated(rng: np.random.Generator, steps: int) -> _Plan:
    plan = _failed_from_start(rng, steps)
    plan.truncated = np.ones(steps)
    plan.rules, plan.cause = ("truncation", "dead-groups"), None
    return plan


def _no_gradient(rng: np.random.Generator, steps: int) -> _Plan:
    plan = _plan(rng, steps)
    plan.success, plan.entropy = np.ones(steps) * rng.uniform(0.3, 0.6), np.ones(steps)
    plan.frozen, plan.still, plan.logs_kl = np.ones(steps) > 0, True, True
    plan.rules, plan.cause = ("no-gradient",), "does not reach the weights"
    plan.onset = plan.event = 1
    plan.grace = TWENTY_ROWS
    return plan


def _no_gradient_later(rng: np.random.Generator, steps: int) -> _Plan:
    """As after a restart with the weights frozen: the policy stays where it got to."""
    plan = _plan(rng, steps)
    onset = int(steps * rng.uniform(0.35, 0.6))
    plan.frozen = np.arange(1, steps + 1) >= onset
    stop = np.minimum(np.arange(steps), onset)
    plan.success, plan.entropy = plan.success[stop], plan.entropy[stop]
    plan.rules, plan.cause = ("no-gradient",), "does not reach the weights"
    plan.onset = plan.event = onset
    plan.grace = TWENTY_ROWS
    return plan


def _mismatch(rng: np.random.Generator, steps: int) -> _Plan:
    plan = _plan(rng, steps)
    onset, over = steps * rng.uniform(0.35, 0.6), rng.uniform(5, 50)
    end = rng.uniform(0.05, 0.12) if rng.random() < 0.7 else rng.uniform(8, 20)
    plan.ratio = np.exp(ramp(steps, onset, over, 0.0, math.log(end)))
    plan.rules = ("sampler-mismatch",)
    plan.onset, plan.event = int(onset), min(steps, math.ceil(onset + over))
    plan.grace = TWENTY_ROWS
    return plan


def _alone(rng: np.random.Generator, steps: int) -> _Plan:
    plan = _plan(rng, steps)
    plan.alone, plan.group, plan.prompts = True, 1, 64
    plan.stuck = np.zeros(steps)
    plan.rules, plan.cause = ("group-size-one",), "groups of one"
    plan.onset = plan.event = 1
    plan.grace = TWENTY_ROWS
    return plan


def _non_finite(rng: np.random.Generator, steps: int) -> _Plan:
    plan = _plan(rng, steps)
    plan.onset = plan.event = int(steps * rng.uniform(0.4, 0.8))
    plan.broken = (str(rng.choice(["loss", "entropy/mean"])), plan.event)
    plan.rules, plan.cause = ("non-finite",), "gives no numbers any more"
    return plan


def _sharpening(rng: np.random.Generator, steps: int) -> _Plan:
    plan = _plan(rng, steps)
    plan.success = ramp(steps, 0, steps * rng.uniform(0.4, 0.8), rng.uniform(0.25, 0.4), rng.uniform(0.85, 0.95))
    plan.entropy = ramp(steps, 0, steps * rng.uniform(0.3, 0.6), 1.0, rng.uniform(0.05, 0.25))
    return plan


def _saturation(rng: np.random.Generator, steps: int) -> _Plan:
    plan = _plan(rng, steps)
    over = steps * rng.uniform(0.2, 0.4)
    plan.success = ramp(steps, 0, over, rng.uniform(0.5, 0.8), rng.uniform(0.985, 0.999))
    plan.entropy = ramp(steps, 0, over, 1.0, rng.uniform(0.01, 0.05))
    plan.stuck = ramp(steps, 0, over, 0.03, 0.0)
    return plan


def _noisy_plateau(rng: np.random.Generator, steps: int) -> _Plan:
    plan = _plan(rng, steps)
    plan.success = np.ones(steps) * rng.uniform(0.2, 0.6)
    plan.entropy = ramp(steps, 0, steps, 1.0, rng.uniform(0.4, 0.9))
    plan.wander, plan.prompts = rng.uniform(0.5, 0.9), 8
    return plan


def _curriculum(rng: np.random.Generator, steps: int) -> _Plan:
    plan = _plan(rng, steps)
    jump, over = steps * rng.uniform(0.4, 0.6), steps * rng.uniform(0.15, 0.3)
    dip = np.where(np.arange(1, steps + 1) < jump, 1.0, ramp(steps, jump, over, 2 / 3, 1.0))
    plan.success = plan.success * dip
    return plan


def _small_batches(rng: np.random.Generator, steps: int) -> _Plan:
    plan = _plan(rng, steps)
    plan.prompts, plan.group, plan.wander = 4, 2, 0.4
    return plan


def _pinned_length(rng: np.random.Generator, steps: int) -> _Plan:
    plan = _plan(rng, steps)
    plan.truncated, plan.length = np.ones(steps), np.ones(steps) * 512
    plan.entropy = ramp(steps, 0, steps * 0.5, 1.0, rng.uniform(0.05, 0.3))
    return plan


def _entropy_wave(rng: np.random.Generator, steps: int) -> _Plan:
    plan = _plan(rng, steps)
    top, width = steps * rng.uniform(0.35, 0.6), steps * rng.uniform(0.1, 0.2)
    x = (np.arange(1, steps + 1) - top) / width
    plan.entropy = plan.entropy * (1 + rng.uniform(1.0, 1.6) * np.exp(-0.5 * x * x))
    return plan


def _late_start(rng: np.random.Generator, steps: int) -> _Plan:
    plan = _plan(rng, steps)
    plan.success = ramp(steps, 30, steps * rng.uniform(0.4, 0.6), 0.012, rng.uniform(0.5, 0.7))
    plan.stuck, plan.alike = np.zeros(steps), 6.0
    plan.entropy = ramp(steps, 30, steps * 0.5, 1.0, rng.uniform(0.3, 0.6))
    return plan


def _hard_prompts(rng: np.random.Generator, steps: int) -> _Plan:
    """Most groups fail all along, and the run learns slowly from the rest."""
    plan = _plan(rng, steps)
    plan.success = ramp(steps, 0, steps, rng.uniform(0.06, 0.1), rng.uniform(0.14, 0.2))
    plan.stuck, plan.alike = np.zeros(steps), 0.7
    return plan


def _negative_rewards(rng: np.random.Generator, steps: int) -> _Plan:
    plan = _plan(rng, steps)
    plan.scale = (2.0, -1.0 - rng.uniform(0.0, 1.0))
    return plan


_GROUPS = ("full", "trl")
_ALL = ("full", "trl", "verl")


@dataclass(frozen=True)
class Kind:
    """A class of runs.

    Args:
        make: The curves.
        loggers: Those that log what would show it; in others it cannot be seen, and is not asked for.
        layouts: Steps and spacing.
    """

    make: Callable[[np.random.Generator, int], _Plan]
    loggers: tuple[str, ...] = _ALL
    layouts: tuple[tuple[int, int], ...] = LAYOUTS


FAILURES: Mapping[str, Kind] = {
    "entropy-collapse": Kind(_entropy_collapse, _GROUPS),
    "reward-sudden-entropy-up": Kind(_reward_collapse(True, True)),
    "reward-sudden-entropy-flat": Kind(_reward_collapse(True, False)),
    "reward-slow-entropy-up": Kind(_reward_collapse(False, True)),
    "reward-slow-entropy-flat": Kind(_reward_collapse(False, False)),
    "failed-from-start": Kind(_failed_from_start, _GROUPS),
    "failed-later": Kind(_failed_later),
    "all-truncated": Kind(_truncated),
    "no-gradient": Kind(_no_gradient, _GROUPS),
    # in a row of several steps, a gradient of 0 shows nothing: it is that of one of them
    "no-gradient-later": Kind(_no_gradient_later, _GROUPS, ((200, 1), (400, 1), (600, 1))),
    "sampler-mismatch": Kind(_mismatch, _GROUPS),
    "group-size-one": Kind(_alone, ("full", "verl")),
    "non-finite": Kind(_non_finite),
}
HARMLESS: Mapping[str, Kind] = {
    "sharpening": Kind(_sharpening),
    "saturation": Kind(_saturation),
    "noisy-plateau": Kind(_noisy_plateau),
    "curriculum-jump": Kind(_curriculum),
    "short": Kind(_plan, layouts=((15, 1), (25, 1), (40, 1))),
    "sparse": Kind(_plan, layouts=((200, 5), (500, 10), (1000, 25))),
    "small-batches": Kind(_small_batches),
    "pinned-length": Kind(_pinned_length),
    "entropy-wave": Kind(_entropy_wave),
    "late-start": Kind(_late_start),
    "hard-prompts": Kind(_hard_prompts),
    "negative-rewards": Kind(_negative_rewards),
}
KINDS: Mapping[str, Kind] = {**FAILURES, **HARMLESS}


def simulate(kind: str, seed: int, layout: int, noise: Noise | None = None) -> Simulated:
    """One run; the same arguments give the same run.

    Args:
        kind: A key of `KINDS`.
        seed: Of everything that is drawn; loggers take turns with it and with the layout.
        layout: Which of the kind's layouts.
        noise: Where a batch's difficulty and the entropy get theirs from.
    """
    chosen, noise = KINDS[kind], Noise() if noise is None else noise
    steps, every = chosen.layouts[layout]
    logger = chosen.loggers[(seed // 2 + layout) % len(chosen.loggers)]
    rng = np.random.default_rng([list(KINDS).index(kind), seed, layout])
    plan = chosen.make(rng, steps)
    names = [name for name in LOGGERS[logger] if plan.logs_kl or name != "kl/ref"]
    rows = _rows(_steps(plan, rng, steps, every, noise), every)
    ends = range(every, steps + 1, every)
    records = [
        StepRecord(step, 1.7e9 + 30.0 * step, {name: float(rows[name][i]) for name in names})
        for i, step in enumerate(ends)
    ]
    event, due = _event(plan, rows, ends)
    config: dict[str, Any] = {"num_generations": plan.group, "num_iterations": 4, "epsilon_high": 0.2}
    return Simulated(
        kind=kind,
        seed=seed,
        logger=logger,
        every=every,
        records=records,
        rules=plan.rules,
        onset=plan.onset,
        event=event,
        due=due,
        cause=plan.cause if logger in plan.cause_loggers else None,
        config=config if logger == "full" else {},
    )


def simulate_all(seeds: int, noise: Noise | None = None) -> list[Simulated]:
    """Every class with every layout, `seeds` times each."""
    return [
        simulate(kind, seed, layout, noise)
        for kind in KINDS
        for seed in range(seeds)
        for layout in range(len(KINDS[kind].layouts))
    ]


def _event(plan: _Plan, rows: Mapping[str, Array], ends: Sequence[int]) -> tuple[int | None, int | None]:
    """From which step the failure is a fact, and the last one at which an alarm is in time."""
    every = ends[0]
    if plan.event_row is not None:
        shown = plan.event_row(rows)
        if not shown.any():
            raise ValueError("the run ends before the failure is a fact")
        event = ends[int(np.argmax(shown))]
    elif plan.event is not None:
        event = plan.event
    else:
        return None, None
    first = next(end for end in ends if end >= event)  # the row that shows it
    return event, first + (plan.grace if plan.grace == ONE_ROW else plan.grace - 1) * every


def _rows(series: Mapping[str, Array], every: int) -> dict[str, Array]:
    """What a row shows of the steps that it stands for."""
    rows = {}
    for name, values in series.items():
        of_rows = values[: len(values) // every * every].reshape(-1, every)
        rows[name] = of_rows[:, -1] if name in ("grad/norm", "lr") else of_rows.mean(axis=1)
    return rows


def _steps(plan: _Plan, rng: np.random.Generator, steps: int, every: int, noise: Noise) -> dict[str, Array]:
    p = np.clip(plan.success, 1e-9, 1 - 1e-9)
    odds = np.log(p / (1 - p)) + plan.wander * noise.draw(rng, steps, every)
    p = np.clip(1 / (1 + np.exp(-odds)), 1e-6, 1 - 1e-6)
    alike = plan.alike
    rates = rng.beta((p * alike)[:, None], ((1 - p) * alike)[:, None], (steps, plan.prompts))
    won = rng.binomial(plan.group, np.where(plan.success[:, None] > 0, rates, 0.0)) / plan.group
    is_stuck = rng.random((steps, plan.prompts)) < plan.stuck[:, None]
    solved, failed = (won == 1) & ~is_stuck, (won == 0) & ~is_stuck
    mean = np.where(is_stuck, 0.5, won)
    square = np.where(is_stuck, 0.25, won)
    within = np.sqrt(np.maximum(square - mean**2, 0))
    times, plus = plan.scale
    reward = mean.mean(axis=1)
    alive = (within > 0).mean(axis=1)
    if plan.alone:
        alive = np.ones(steps)
    wobble = np.exp(0.3 * rng.normal(size=steps))
    gradient = np.where(plan.frozen, 0.0, rng.uniform(0.05, 1.0) * np.sqrt(alive) * wobble)
    kl = np.cumsum(np.where(plan.frozen, 0.0, 2e-4 * alive * np.abs(rng.normal(size=steps))))
    start = math.exp(rng.uniform(math.log(0.15), math.log(1.5)))  # nats per token
    shown = times * reward + plus
    series = {
        "entropy/mean": start * plan.entropy * np.exp(0.06 * noise.draw(rng, steps, every)),
        "reward/mean": shown,
        "reward/std": times * np.sqrt(np.maximum(square.mean(axis=1) - reward**2, 0)),
        "groups/solved": solved.mean(axis=1),
        "groups/failed": failed.mean(axis=1),
        "groups/stuck": is_stuck.mean(axis=1),
        "groups/zero_std": (within == 0).mean(axis=1),
        "groups/reward_std": times * within.mean(axis=1),
        "advantage/mean": shown.copy() if plan.alone else rng.normal(0, 0.01, steps),
        "grad/norm": gradient,
        "loss": rng.normal(0, 0.01, steps),
        "lr": np.full(steps, 1e-6),
        "kl/ref": np.zeros(steps) if plan.still else kl,
        "length/mean": plan.length * np.exp(0.05 * rng.normal(size=steps) * (plan.truncated < 1)),
        "length/truncated": np.clip(plan.truncated + 0.02 * rng.normal(size=steps) * (plan.truncated < 1), 0, 1),
        "sampler/ratio_mean": plan.ratio * np.exp(0.03 * rng.normal(size=steps)),
    }
    if plan.broken is not None:
        name, since = plan.broken
        series[name][since - 1 :] = math.nan
    return series
