"""Which completions count as correct: asked of the user, else read off the rewards, else unknown and said to be."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

Correct = Callable[..., Sequence[Any]] | str | tuple[str, float]
"""What `correct=` takes: a function, a reward function's name, or (name, threshold)."""

_TELLING_WORDS = ("accura", "correct", "answer", "solve", "solution", "verif", "exact", "success", "pass")
"""What in a reward function's name says that it tells right from wrong, the surest first."""

_FORM_NAME = re.compile(r"format|length|tag|xml|style|language|penal|repeti|think|reason", re.IGNORECASE)


def check_type(correct: Any) -> Correct | None:
    """The argument as it came.

    Raises:
        TypeError: It is not what `correct=` takes.
    """
    named = isinstance(correct, tuple) and len(correct) == 2 and isinstance(correct[0], str)
    if correct is None or callable(correct) or isinstance(correct, str) or named:
        return correct  # type: ignore[no-any-return]
    raise TypeError(f"correct= takes a function, a reward function's name, or (name, threshold), not {correct!r}")


_PLAIN_PAIRS = ([0.0, 1.0], [-1.0, 1.0])
_ENOUGH = 32
"""Rewards after which a function that has shown two values is believed to take only two: a reward of many values may
well show two in its first few completions. The plain right-or-wrong pairs are believed at once."""


class Correctness:
    """Decides which completions of a generation are correct.

    `correct=` may be

    - a function, called with those of `prompts`, `completions`, `completion_ids`, `rewards` (the total, a list), the
      dataset's columns and the reward functions' names (what each gave, a list) that its signature names, or all of
      them if it takes `**kwargs`; it returns one truth value a completion, None where it does not know;
    - a reward function's name: correct is the higher of its two values, or above 0 while it has another number of them;
    - `(name, threshold)`: correct is a reward of at least the threshold.

    Without it: the one reward function that only takes two values (of several, one whose name speaks of form, such as
    format or length, is passed over), else the one whose name says so (accuracy, correct, answer, ...), else nobody
    knows, and what depends on it is absent.

    Args:
        correct: As above.
        functions: The names of the reward functions.

    Raises:
        ValueError: It names no reward function.
    """

    def __init__(self, correct: Correct | None, functions: Sequence[str]) -> None:
        self._functions = list(functions)
        self._call = correct if callable(correct) else None
        self._name: str | None = None
        self._threshold: float | None = None
        if isinstance(correct, str):
            self._name = correct
        elif isinstance(correct, tuple):
            self._name, self._threshold = str(correct[0]), float(correct[1])
        self._unknown_because = ""
        if self._name is not None and self._name not in self._functions:
            raise ValueError(
                f"correct= names {self._name!r}, which is not a reward function of this trainer; "
                f"these are: {', '.join(self._functions) or 'none'}"
            )
        # Up to three different values of each function: enough to know whether there are exactly two.
        self._values: list[list[float]] = [[] for _ in self._functions]
        self._looked_at = 0

    @classmethod
    def unknown(cls, why: str) -> Correctness:
        """One that never knows, and says why."""
        correctness = cls(None, ())
        correctness._unknown_because = why
        return correctness

    def judge(
        self, per_function: FloatArray, total: FloatArray, rows: slice, context: Mapping[str, Any]
    ) -> FloatArray | None:
        """1 where a completion is correct, 0 where not, NaN where it is not known; None where nobody says what it is.

        Args:
            per_function: (completions, functions), what each reward function gave; NaN where it gave nothing. Those of
                all ranks, so that all ranks come to the same decision.
            total: (completions,), the weighted sum.
            rows: The completions of this rank, which are judged.
            context: `prompts`, `completions`, `completion_ids` and the dataset's columns of these rows, as lists.

        Raises:
            ValueError: The user's function does not return one value a completion.
            TypeError: It asks for something that is not there.
        """
        self._look_at(per_function)
        if self._call is not None:
            return self._ask(self._call, per_function[rows], total[rows], context)
        index = self._chosen()
        if index is None:
            return None
        rewards = per_function[rows, index]
        limit, inclusive = self._limit(index)
        right = rewards >= limit if inclusive else rewards > limit
        return np.where(np.isnan(rewards), np.nan, right.astype(np.float64))

    def describe(self) -> str:
        """One sentence for a person: what counts as correct, why, and how to say otherwise."""
        if self._call is not None:
            return f"what {getattr(self._call, '__name__', 'your function')}() says"
        if self._unknown_because:
            return f"not known, so length/correct and length/incorrect are absent: {self._unknown_because}"
        index = self._chosen()
        if index is None:
            names = ", ".join(self._functions) or "none"
            return (
                "not known, so length/correct and length/incorrect are absent. Say it with "
                f"correct=<a reward function's name>, (name, threshold) or a function; reward functions here: {names}"
            )
        name = self._functions[index]
        limit, inclusive = self._limit(index)
        rule = f"{name} {'≥' if inclusive else '>'} {limit:g}"
        if self._name is not None:
            return f"{rule}, as you said"
        why = "it alone takes two values" if index == self._only_binary() else "by its name"
        return f"{rule} ({why}; correct= says otherwise)"

    def _look_at(self, per_function: FloatArray) -> None:
        self._looked_at += len(per_function)
        for index, seen in enumerate(self._values):
            if len(seen) < 3:
                column = per_function[:, index]
                seen[:] = sorted({*seen, *np.unique(column[np.isfinite(column)]).tolist()})[:3]

    def _is_binary(self, seen: list[float]) -> bool:
        return len(seen) == 2 and (seen in _PLAIN_PAIRS or self._looked_at >= _ENOUGH)

    def _only_binary(self) -> int | None:
        binary = [
            index
            for index, (name, seen) in enumerate(zip(self._functions, self._values, strict=True))
            if self._is_binary(seen) and (len(self._functions) == 1 or not _FORM_NAME.search(name))
        ]
        return binary[0] if len(binary) == 1 else None

    def _by_name(self) -> int | None:
        for word in _TELLING_WORDS:
            matches = [index for index, name in enumerate(self._functions) if word in name.lower()]
            if len(matches) == 1:
                return matches[0]
        return None

    def _chosen(self) -> int | None:
        if self._name is not None:
            return self._functions.index(self._name)
        by_name, only_binary = self._by_name(), self._only_binary()
        # A function with a telling name that has shown a single value so far may still turn out to take two.
        if only_binary is None or (by_name is not None and len(self._values[by_name]) < 2):
            return by_name
        return only_binary

    def _limit(self, index: int) -> tuple[float, bool]:
        if self._threshold is not None:
            return self._threshold, True
        values = self._values[index]
        return (values[1], True) if len(values) == 2 else (0.0, False)

    def _ask(
        self,
        function: Callable[..., Sequence[Any]],
        per_function: FloatArray,
        total: FloatArray,
        context: Mapping[str, Any],
    ) -> FloatArray:
        offered = {name: per_function[:, index].tolist() for index, name in enumerate(self._functions)}
        offered.update(context)
        offered["rewards"] = total.tolist()
        parameters = inspect.signature(function).parameters.values()
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            missing = [p.name for p in parameters if p.default is p.empty and p.name not in offered]
            if missing:
                raise TypeError(
                    f"the function given as correct= asks for {', '.join(missing)}; "
                    f"rlwatch can pass it {', '.join(sorted(offered))}"
                )
            offered = {p.name: offered[p.name] for p in parameters if p.name in offered}
        verdicts = list(function(**offered))
        if len(verdicts) != len(total):
            raise ValueError(f"the function given as correct= returned {len(verdicts)} values for {len(total)}")
        unknown = [verdict is None or verdict != verdict for verdict in verdicts]
        return np.array([np.nan if u else float(bool(v)) for u, v in zip(unknown, verdicts, strict=True)])
