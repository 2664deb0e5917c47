"""From which row on a failure is a fact, and how long after it an alarm is still in time.

A fact is about four rows in a row, and dates from the first of them; what has to do with how the run was before is
measured against the mean of the ten rows before the onset. Nothing dates from before the onset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from .noise import Array

Fact = Callable[[Mapping[str, Array], int], Array]
"""Rows and the index of the onset's, to whether each row shows the failure."""

GONE = 0.1
"""The mean reward of four rows below which it is a fact that it is gone, from the first of them on."""

STUCK = 0.9
"""The mean share of stuck groups in four rows from which a collapsed entropy is a fact: nine in ten teach nothing."""

EVENT_ONLY, ONE_ROW, TWENTY_ROWS = 0, 1, 20
"""How long after the event an alarm is still in time: by the next row, as for the collapses of real runs, since a fact
dates from the first of the rows that show it; by the event's row, where a warning has to come long before the loss;
within twenty rows what is dead or misconfigured from its event on, since before it there is nothing to see."""


def four_rows(values: Array) -> Array:
    """The mean of each row and the three after it."""
    return np.convolve(values, np.ones(4) / 4, "valid")


def before(values: Array, start: int) -> float:
    """The mean of the ten rows before the onset's, of those that have a value."""
    return float(np.nanmean(values[max(0, start - 10) : start]))


def is_stuck(rows: Mapping[str, Array], start: int) -> Array:
    """Nine in ten groups are stuck."""
    return four_rows(rows["groups/stuck"]) >= STUCK


def is_gone(rows: Mapping[str, Array], start: int) -> Array:
    """The reward is gone."""
    return four_rows(rows["reward/mean"]) < GONE


def reaches(names: Sequence[str], level: float) -> Fact:
    """The sum of some metrics is at a level or over it."""
    return lambda rows, start: four_rows(sum(rows[name] for name in names)) >= level


def sinks(name: str, level: float) -> Fact:
    """A metric is at a level or below it."""
    return lambda rows, start: four_rows(rows[name]) <= level


def grows(name: str, factor: float) -> Fact:
    """A metric is so many times what it was before."""
    return lambda rows, start: four_rows(rows[name]) >= factor * before(rows[name], start)


def shrinks(name: str, factor: float) -> Fact:
    """A metric is at most such a part of what it was before."""
    return lambda rows, start: four_rows(rows[name]) <= factor * before(rows[name], start)


def gap_reaches(share: float) -> Fact:
    """Incorrect completions are longer than correct ones by such a share of the mean length."""
    return lambda rows, start: four_rows(rows["length/gap"] / rows["length/mean"]) >= share


def spiked(times: int, factor: float) -> Fact:
    """The gradient has been so many times the median before the onset, in so many rows since then; no four rows."""

    def fact(rows: Mapping[str, Array], start: int) -> Array:
        high = rows["grad/norm"] >= factor * np.median(rows["grad/norm"][max(0, start - 50) : start])
        high[:start] = False
        return np.cumsum(high) >= times

    return fact


def evaluation_falls(factor: float) -> Fact:
    """The mean of an evaluation and the next is at most such a part of that of the last three before the onset."""

    def fact(rows: Mapping[str, Array], start: int) -> Array:
        values = rows["eval/reward"]
        done = np.flatnonzero(~np.isnan(values))
        reference = values[done[done < start][-3:]].mean()
        pairs = (values[done[:-1]] + values[done[1:]]) / 2
        shown = np.zeros(len(values), dtype=bool)
        shown[done[:-1][pairs <= factor * reference]] = True
        return shown

    return fact
