"""What `Monitor` does where something is wrong: a user's error is said at once, a fault of its own reaches nobody."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlwatch import Monitor
from rlwatch.capture.own_steps import OwnSteps
from rlwatch.runs.reader import read_info


@pytest.fixture
def monitor(tmp_path: Path) -> Monitor:
    return Monitor(tmp_path / "runs", name="run")


def test_a_directory_that_cannot_be_made_leaves_the_alerts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    with Monitor(tmp_path / "file") as monitor:
        monitor.rollouts([1.0])
        assert monitor.step(1, loss=math.nan)["reward/mean"] == 1.0
    assert monitor.run_dir is None
    assert "non-finite" in capsys.readouterr().out


def test_a_directory_that_disappears_does_not_reach_the_loop(monitor: Monitor) -> None:
    monitor.step(1)
    assert monitor.run_dir is not None
    shutil.rmtree(monitor.run_dir)
    monitor.rollouts([1.0])
    assert monitor.step(2)["reward/mean"] == 1.0
    monitor.close()
    assert "writing rollouts" in [fault["where"] for fault in monitor._guard.faults]


@pytest.mark.parametrize("method", ["take", "count", "end"])
def test_a_fault_inside_does_not_reach_the_loop(monitor: Monitor, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(OwnSteps, method, broken)
    monitor.rollouts([1.0])
    monitor.tokens([[-1.0]], [[1.0]], [[1]])
    found = monitor.step(1)
    assert ("reward/mean" in found, "entropy/mean" in found) == (method == "count", method == "take")
    monitor.close()
    assert monitor.run_dir is not None
    (fault,) = read_info(monitor.run_dir)["faults"]
    assert fault["error"] == "RuntimeError: a bug"


def test_what_a_fault_has_kept_from_a_sum_is_not_left_out_silently(
    monitor: Monitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor.tokens([[-1.0]], [[1.0]], [[1]])
    with monkeypatch.context() as patched:
        patched.setattr("rlwatch.capture.own_steps.token_sums", None)
        monitor.tokens([[-3.0]], [[3.0]], [[1]])
    assert monitor.step(1) == {}
    monitor.tokens([[-3.0]], [[3.0]], [[1]])
    assert monitor.step(2)["entropy/mean"] == 3.0


def two(monitor: Monitor) -> None:
    monitor.rollouts([1.0, 0.0])


def without_gradient() -> Any:
    return torch.nn.Linear(2, 2).parameters()


TOKENS: dict[str, Any] = {"logprobs": [[-1.0, -2.0]], "entropy": [[1.0, 1.0]], "mask": [[1, 1]]}

ERRORS: list[tuple[Callable[[Monitor], Any], type[Exception], str]] = [
    (lambda m: m.rollouts([[1.0, 2.0]]), ValueError, r"rewards= has shape \(1, 2\).*group_size="),
    (lambda m: m.rollouts([]), ValueError, r"rewards= has shape \(0,\)"),
    (lambda m: m.rollouts(["good", "bad"]), TypeError, "rewards= takes numbers"),
    (lambda m: m.rollouts({"a": 1.0}), TypeError, "rewards= takes numbers"),
    (lambda m: m.rollouts(torch.ones(2, dtype=torch.complex64)), TypeError, "rewards= takes numbers.*complex"),
    (lambda m: m.rollouts([[1.0], [1.0, 2.0]]), ValueError, "rewards= is a list of rows of different lengths.*pad"),
    (lambda m: m.rollouts([1.0, 0.0], lengths=[1, 2, 3]), ValueError, r"lengths= has shape \(3,\).*2 completions"),
    (lambda m: m.rollouts([1.0, 0.0], lengths=[1, None]), ValueError, "lengths= takes the number of tokens.*nan"),
    (lambda m: m.rollouts([1.0, 0.0], lengths=[1, -1]), ValueError, "lengths= takes the number of tokens.*-1"),
    (lambda m: m.rollouts([1.0, 0.0], correct=[0.5, 1]), ValueError, "correct= takes True or False.*holds 0.5"),
    (lambda m: m.rollouts([1.0, 0.0], truncated=[None, 1]), ValueError, "truncated= takes True or False.*holds nan"),
    (lambda m: m.rollouts([1.0, 0.0], advantages=[[1.0], [2.0]]), ValueError, r"advantages= has shape \(2, 1\)"),
    (lambda m: m.rollouts([1.0, 0.0], groups=[0]), ValueError, "groups= has 1 entries.*2 completions"),
    (lambda m: m.rollouts([1.0, 0.0], groups=4), TypeError, "groups= takes one entry a completion"),
    (lambda m: m.rollouts([1.0, 0.0], groups=[[0], [1]]), TypeError, "groups= takes an int or a string"),
    (lambda m: m.rollouts([1.0, 0.0, 1.0], group_size=2), ValueError, "group_size=2 does not divide 3.*groups="),
    (lambda m: m.rollouts([1.0], group_size=0), ValueError, "group_size=0 does not divide"),
    (lambda m: m.rollouts([1.0], group_size=1.0), TypeError, "group_size= takes an int"),
    (lambda m: m.rollouts([1.0], groups=[0], group_size=1), ValueError, "give one of them"),
    (lambda m: m.rollouts([1.0], completions="text"), TypeError, "completions= takes one entry a completion"),
    (lambda m: m.rollouts([1.0], prompts=["a", "b"]), ValueError, "prompts= has 2 entries"),
    (lambda m: m.rollouts([1.0], functions=[[1.0]]), TypeError, "functions= takes a mapping"),
    (lambda m: m.rollouts([1.0], functions={"f": [1.0, 2.0]}), ValueError, r"functions\['f'\]= has shape \(2,\)"),
    (lambda m: m.tokens([-1.0], [1.0], [1]), ValueError, r"logprobs= has shape \(1,\).*logprobs\[None\]"),
    (lambda m: m.tokens(**TOKENS | {"entropy": [[1.0]]}), ValueError, r"entropy= has shape \(1, 1\).*\(1, 2\)"),
    (lambda m: m.tokens(**TOKENS | {"mask": [[1, 0.5]]}), ValueError, "mask= takes 1.*holds 0.5"),
    (lambda m: m.tokens(**TOKENS | {"mask": None}), TypeError, "mask= takes numbers, and is None"),
    (lambda m: m.tokens(**TOKENS, old_logprobs=[-1.0, -2.0]), ValueError, r"old_logprobs= has shape \(2,\)"),
    (lambda m: m.tokens(**TOKENS, ref_logprobs=np.ones((2, 1))), ValueError, r"ref_logprobs= has shape \(2, 1\)"),
    (lambda m: m.tokens(**TOKENS, sampler_logprobs=[[0.0] * 3]), ValueError, r"sampler_logprobs= has shape \(1, 3\)"),
    (lambda m: m.tokens(**TOKENS, advantages=[1.0, 1.0]), ValueError, r"advantages= has shape \(2,\).*\(1,\)"),
    (lambda m: m.tokens(**TOKENS, epsilon=(1, 2, 3)), ValueError, "epsilon= takes one number, or"),
    (lambda m: m.tokens(**TOKENS, epsilon=-0.1), ValueError, "epsilon= takes"),
    (lambda m: m.tokens(**TOKENS, rows=[0]), ValueError, "call that first"),
    (lambda m: (two(m), m.tokens(**TOKENS, rows=[2])), ValueError, "rows= says which of the 2 completions.*0 to 1"),
    (lambda m: (two(m), m.tokens(**TOKENS, rows=[0, 1])), ValueError, r"rows= has shape \(2,\)"),
    (lambda m: m.gradients(), ValueError, "parameters= or norm="),
    (lambda m: m.gradients(torch.nn.Linear(2, 2)), TypeError, "model.parameters"),
    (lambda m: m.gradients(torch.nn.Linear(2, 2).named_parameters()), TypeError, "not tuple"),
    (lambda m: m.gradients(without_gradient()), ValueError, r"no parameter has a gradient.*backward"),
    (lambda m: m.gradients(norm="1"), TypeError, "norm= takes numbers"),
    (lambda m: (m.gradients(norm=1.0), m.gradients(norm=1.0)), ValueError, "called twice for one step"),
    (lambda m: m.step(1.0), TypeError, "step= takes the number of optimizer steps done, an int"),
    (lambda m: m.step(True), TypeError, "step= takes"),
    (lambda m: m.step("1"), TypeError, "step= takes"),
    (lambda m: m.step(-1), ValueError, "not -1"),
    (lambda m: (m.step(5), m.step(5)), ValueError, "step 5 comes after step 5: steps must grow"),
    (lambda m: (m.step(5), m.step(np.int64(3))), ValueError, "step 3 comes after step 5"),
    (lambda m: m.step(1, loss=torch.ones(3)), ValueError, r"loss= takes one number and has shape \(3,\)"),
    (lambda m: m.step(1, lr="0.1"), TypeError, "lr= takes numbers"),
    (lambda m: m.step(1, mine=object()), TypeError, "mine= takes numbers"),
    (lambda m: (m.close(), m.step(1)), ValueError, "closed"),
    (lambda m: (m.close(), m.rollouts([1.0])), ValueError, "closed"),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_what_does_not_fit_is_an_error_that_says_what_would(monitor: Monitor, number: int) -> None:
    call, kind, words = ERRORS[number]
    with pytest.raises(kind, match=f"(?s){words}"):
        call(monitor)
    assert monitor._guard.faults == []


def test_an_error_in_a_call_leaves_the_step_as_it_was(monitor: Monitor) -> None:
    monitor.rollouts([1.0, 0.0], group_size=2)
    with pytest.raises(ValueError, match="lengths="):
        monitor.rollouts([1.0], lengths=[1, 2])
    with pytest.raises(ValueError, match="loss="):
        monitor.step(1, loss=[1.0, 2.0])
    assert monitor.step(1)["reward/mean"] == 0.5


@pytest.mark.parametrize("options", [{"sample_completions": -1}, {"sample_completions": "some"}])
def test_wrong_options_are_said_at_once(tmp_path: Path, options: Any) -> None:
    with pytest.raises(ValueError, match="sample_completions= takes"):
        Monitor(tmp_path, **options)
    with pytest.raises(TypeError, match=r"config= takes a mapping, not list.*vars\(\)"):
        Monitor(tmp_path, config=[1])  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_step_without_a_gradient_later_on_is_no_error(monitor: Monitor) -> None:
    monitor.gradients(norm=1.0)
    monitor.step(1)
    monitor.gradients(without_gradient())
    assert "grad/norm" not in monitor.step(2)
