"""What counts as correct: said, read off the rewards, or unknown and said to be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from rlwatch.capture.correctness import Correctness, check_type

ALL = slice(None)


def judge(correctness: Correctness, *columns: list[float], **context: Any) -> list[float] | None:
    per_function = np.array(columns).T
    found = correctness.judge(per_function, np.nansum(per_function, axis=1), ALL, context)
    return None if found is None else found.tolist()


def test_the_one_function_that_takes_two_values() -> None:
    correctness = Correctness(None, ["style", "check"])
    assert judge(correctness, [0.1, 0.2, 0.3], [0.0, 1.0, 1.0]) == [0.0, 1.0, 1.0]
    assert correctness.describe() == "check ≥ 1 (it alone takes two values; correct= says otherwise)"


def test_of_two_such_functions_the_one_whose_name_says_so() -> None:
    correctness = Correctness(None, ["format_reward", "accuracy_reward", "tidy"])
    assert judge(correctness, [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]) == [0.0, 1.0]
    assert "accuracy_reward ≥ 1 (by its name" in correctness.describe()


def test_the_surer_word_decides_between_two_telling_names() -> None:
    correctness = Correctness(None, ["safe_answer_reward", "accuracy_reward"])
    assert judge(correctness, [0.5, 0.0], [0.0, 1.0]) == [0.0, 1.0]


def test_a_telling_name_that_has_shown_one_value_goes_before_a_two_valued_function() -> None:
    correctness = Correctness(None, ["accuracy", "tidy"])
    assert judge(correctness, [0.0, 0.0], [0.0, 1.0]) == [0.0, 0.0]


def test_a_format_reward_is_not_taken_for_correctness() -> None:
    correctness = Correctness(None, ["format_reward", "accuracy"])
    assert judge(correctness, [0.0, 1.0, 1.0], [0.0, 0.5, 1.0]) == [0.0, 1.0, 1.0]
    assert correctness.describe() == "accuracy > 0 (by its name; correct= says otherwise)"


def test_nobody_knows() -> None:
    correctness = Correctness(None, ["a", "b"])
    assert judge(correctness, [0.1, 0.2, 0.3], [1.0, 2.0, 3.0]) is None
    assert "not known" in correctness.describe()
    assert "reward functions here: a, b" in correctness.describe()


def test_two_values_that_are_not_plainly_right_and_wrong_are_not_believed_at_once() -> None:
    correctness = Correctness(None, ["shaped"])
    assert judge(correctness, [0.5, 0.125]) is None
    assert judge(correctness, [0.5] * 32) == [1.0] * 32


def test_a_third_value_takes_the_answer_back() -> None:
    correctness = Correctness(None, ["shaped"])
    assert judge(correctness, [0.0, 1.0]) == [0.0, 1.0]
    assert judge(correctness, [0.5, 1.0]) is None
    assert "not known" in correctness.describe()


def test_a_name_takes_the_higher_of_two_values_and_above_zero_else() -> None:
    two = Correctness("score", ["score"])
    assert judge(two, [1.0, 2.0]) is not None
    assert judge(two, [2.0] * 31 + [1.0]) == [1.0] * 31 + [0.0]
    many = Correctness("score", ["score"])
    assert judge(many, [-1.0, 0.0, 0.5, 3.0]) == [0.0, 0.0, 1.0, 1.0]
    assert many.describe() == "score > 0, as you said"


def test_a_name_with_a_threshold() -> None:
    correctness = Correctness(("score", 0.5), ["style", "score"])
    assert judge(correctness, [9.0, 9.0, 9.0], [0.4, 0.5, math.nan])[:2] == [0.0, 1.0]  # type: ignore[index]
    assert math.isnan(judge(correctness, [9.0], [math.nan])[0])  # type: ignore[index]


def test_a_function_gets_what_its_signature_names() -> None:
    def right(completions: list[str], target: list[str], rewards: list[float]) -> list[Any]:
        assert rewards == [1.0, 0.0, 0.0]
        return [text == goal if goal else None for text, goal in zip(completions, target, strict=True)]

    correctness = Correctness(right, ["f"])
    found = judge(correctness, [1.0, 0.0, 0.0], completions=["a", "b", "c"], target=["a", "x", ""])
    assert found is not None
    assert found[:2] == [1.0, 0.0]
    assert math.isnan(found[2])
    assert correctness.describe() == "what right() says"


def test_a_function_with_keywords_gets_everything() -> None:
    seen: dict[str, Any] = {}

    def right(**everything: Any) -> list[bool]:
        seen.update(everything)
        return [True]

    judge(Correctness(right, ["f"]), [1.0], prompts=["p"], completions=["c"])
    assert seen == {"f": [1.0], "rewards": [1.0], "prompts": ["p"], "completions": ["c"]}


def test_a_function_that_asks_for_what_is_not_there() -> None:
    def right(solution: Any) -> list[bool]:
        return [True]

    with pytest.raises(TypeError, match=r"asks for solution; rlwatch can pass it f, prompts, rewards"):
        judge(Correctness(right, ["f"]), [1.0], prompts=["p"])


def test_a_function_that_returns_too_few() -> None:
    with pytest.raises(ValueError, match="returned 1 values for 2"):
        judge(Correctness(lambda rewards: [True], ["f"]), [1.0, 0.0])


def test_only_the_rows_of_this_rank_are_judged() -> None:
    correctness = Correctness(None, ["check"])
    per_function = np.array([[0.0], [1.0], [0.0], [1.0]])
    found = correctness.judge(per_function, per_function[:, 0], slice(2, 4), {})
    assert found is not None
    assert found.tolist() == [0.0, 1.0]


def test_what_is_not_an_answer_is_refused() -> None:
    for wrong in (3, ("name",), ("name", 1, 2), (1.0, "name")):
        with pytest.raises(TypeError, match="correct= takes"):
            check_type(wrong)
