"""`Monitor`: what a training loop without TRL calls to be watched. It needs no torch."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from rlwatch.alerts import stdout
from rlwatch.capture import inputs
from rlwatch.capture.acting import Acting, OnAlert, StopOn
from rlwatch.capture.guard import Guard
from rlwatch.capture.own_rollouts import Given
from rlwatch.capture.own_steps import OwnSteps, micro_batch, run_info
from rlwatch.capture.session import Session
from rlwatch.capture.wanted import Wanted
from rlwatch.settings import RuleArgument, SettingsArgument


class Monitor:
    """Watches a training loop of your own: what the loop tells of each step is recorded, judged and shown.

        with rlwatch.Monitor("runs", name="my-grpo", config=vars(args)) as monitor:
            for step in range(1, steps + 1):
                ...                                          # generate, score, compute the loss
                monitor.rollouts(rewards, groups=prompt_ids, lengths=lengths)
                monitor.tokens(logprobs, entropy, mask, old_logprobs=old, advantages=advantages, epsilon=0.2)
                loss.backward()
                monitor.gradients(policy.parameters(), max_norm=1.0)
                ...                                          # clip, optimizer.step()
                monitor.step(step, loss=loss, lr=lr)

    Every call but `step` may be left out, and every argument that has a default: what is not given is not recorded, and
    never taken to be zero. Lists, numpy arrays and tensors of any dtype and on any device are taken alike and copied at
    once. Use it from one thread and in one process: under data parallelism on rank 0, with what all ranks gathered.

    An argument that does not fit is an error at once. A fault of rlwatch's own is none: it is logged, counted in
    run.json, and the training goes on.

    Args:
        dir: The folder that run directories are made in.
        name: The run's name; by default that of the script with the time behind it.
        config: Settings for run.json, where the rules look for causes: under TRL's names, such as `epsilon_high` and
            `num_iterations` (updates a rollout). The texts of settings whose names speak of secrets are not kept.
        sample_completions: How many groups a call of `rollouts` to keep the text of; 0 keeps none, "all" keeps all.
        stop_on: What makes `should_stop` true: an alert that is "critical", a "warning" or worse, or one of a list of
            rules. By default nothing does.
        on_alert: A function that gets every change of an alert's state.
        settings: The path of a `rlwatch.toml`, or the same as a mapping. By default the file is looked for in `dir` and
            in the working directory.
        rules: Rules of your own: classes made from [`Rule`][rlwatch.rules.Rule], or such rules.

    Raises:
        TypeError: `config` is no mapping, or `on_alert` cannot be called.
        ValueError: `sample_completions` is not a count, or `stop_on` names nothing that there is; or `settings` or
            `rules` make no sense.

    Attributes:
        run_dir: The run directory, or None if it could not be made.
        should_stop: There was an alert that `stop_on` asks for: save a checkpoint and leave the loop.
    """

    def __init__(
        self,
        dir: str | os.PathLike[str] = "runs",
        *,
        name: str | None = None,
        config: Mapping[str, Any] | None = None,
        sample_completions: int | str = 2,
        stop_on: StopOn = None,
        on_alert: OnAlert = None,
        settings: SettingsArgument = None,
        rules: Sequence[RuleArgument] = (),
    ) -> None:
        if sample_completions != "all" and (not isinstance(sample_completions, int) or sample_completions < 0):
            raise ValueError(f'sample_completions= takes a number of groups or "all", not {sample_completions!r}')
        if config is not None and not isinstance(config, Mapping):
            raise TypeError(f"config= takes a mapping, not {type(config).__name__}; vars() makes one of a Namespace")
        self.run_dir: Path | None = None
        self._guard = Guard()
        self._closed = False
        self._wanted = Wanted(dir, settings, rules)
        self._acting = Acting(stop_on, on_alert, rules=self._wanted.names(), guard=self._guard)
        self._session: Session | None = None
        self._steps = OwnSteps(self._guard, None if sample_completions == "all" else int(sample_completions))
        self._guard.run("starting to watch", self._begin, dir, name, config or {})
        # Now: the thread that writes rollouts cannot import it any more once a short script has come to its end.
        self._guard.run("importing polars", importlib.import_module, "polars")

    def rollouts(
        self,
        rewards: Any,
        *,
        groups: Any = None,
        group_size: int | None = None,
        lengths: Any = None,
        correct: Any = None,
        truncated: Any = None,
        advantages: Any = None,
        prompts: Any = None,
        completions: Any = None,
        functions: Mapping[str, Any] | None = None,
    ) -> None:
        """Tell of n completions: the steps from now on train on them, until others come after one of these steps.

        Several calls before a step belong together. Of what one of them was not given, nothing is known of all.

        Args:
            rewards: (n,), the reward of each completion; NaN or None where there is none.
            groups: An id a completion, equal for completions to one prompt; groups may differ in size. Without it or
                `group_size`, as in PPO, there are no groups, and no `groups/` metrics.
            group_size: Completions a prompt, where all prompts have as many and siblings stand side by side.
            lengths: (n,), tokens that the policy wrote.
            correct: (n,), whether each completion is correct; NaN or None where that is not known.
            truncated: (n,), whether each ran into the length limit.
            advantages: (n,), for the table of rollouts.
            prompts: n prompts, as text or in any other form.
            completions: n completions, as text or tokens, to tell different ones apart.
            functions: Scores of each reward function by its name, (n,) each; recorded as `reward/<name>`.

        Raises:
            TypeError: An argument does not hold numbers, or not those that it takes.
            ValueError: An argument has another shape or other values.
        """
        self._check_open()
        given = Given.read(
            rewards,
            groups,
            group_size,
            functions,
            lengths=lengths,
            correct=correct,
            truncated=truncated,
            advantages=advantages,
            prompts=prompts,
            completions=completions,
        )
        self._guard.run("taking in rollouts", self._steps.take, given)

    def tokens(
        self,
        logprobs: Any,
        entropy: Any,
        mask: Any,
        *,
        old_logprobs: Any = None,
        ref_logprobs: Any = None,
        sampler_logprobs: Any = None,
        advantages: Any = None,
        epsilon: float | tuple[float, float] | None = None,
        rows: Any = None,
    ) -> None:
        """Tell of a micro-batch that the next step trains on: B completions, T tokens. Any number of calls a step.

        Args:
            logprobs: (B, T), log-probability of each sampled token under the policy, in nats.
            entropy: (B, T), entropy of the policy's distribution over each token, in nats; None where it is not known.
            mask: (B, T), 1 for the tokens that the loss counts. What is under a 0 is never looked at.
            old_logprobs: (B, T), under the policy that the ratio is measured from.
            ref_logprobs: (B, T), under the reference policy.
            sampler_logprobs: (B, T), as the inference engine reported them; NaN where it did not.
            advantages: (B,), or (B, T) as from GAE.
            epsilon: The ratio is clipped to 1 − epsilon and 1 + epsilon, or to (low, high) below and above 1: with it,
                the old log-probabilities and the advantages, it is known which tokens the clip has cut off.
            rows: (B,), which of the completions of `rollouts` each row is, from 0: for the entropy of correct and of
                incorrect ones, and for the table of rollouts.

        Raises:
            TypeError: An argument does not hold numbers.
            ValueError: An argument has another shape or other values.
        """
        self._check_open()
        batch = micro_batch(
            logprobs,
            mask,
            advantages,
            epsilon,
            entropy=entropy,
            old_logprobs=old_logprobs,
            ref_logprobs=ref_logprobs,
            sampler_logprobs=sampler_logprobs,
        )
        known = self._steps.rollouts.count
        places = None if rows is None else inputs.row_numbers(rows, len(batch.mask), known)
        self._guard.run("taking in tokens", self._steps.count, batch, places)

    def gradients(
        self,
        parameters: Iterable[Any] | None = None,
        *,
        norm: Any = None,
        max_norm: float | None = None,
        policy_only: bool = False,
    ) -> None:
        """Tell of the gradient, once a step, after `backward()` and before it is clipped.

        Args:
            parameters: The policy's torch parameters, with their gradients, unscaled under mixed precision.
            norm: Instead of them, the norm before clipping, as `torch.nn.utils.clip_grad_norm_` returns it.
            max_norm: What the norm is clipped to; None where it is not.
            policy_only: Nothing but the policy's loss reaches these parameters: no KL term, entropy bonus or value
                loss. All of the gradient is effective then; otherwise rlwatch cannot tell what part of it is.

        Raises:
            TypeError: These are no torch parameters, or no numbers.
            ValueError: Neither or both of the first two are given; it is the second call for one step; or at the first
                call no parameter has a gradient.
        """
        self._check_open()
        if (parameters is None) == (norm is None):
            raise ValueError("monitor.gradients() takes parameters= or norm=, one of them")
        size, limit = inputs.number("norm", norm), inputs.number("max_norm", max_norm)
        self._steps.saw_gradients(parameters, size, limit, policy_only)

    def step(self, step: int, *, loss: Any = None, lr: Any = None, **metrics: Any) -> dict[str, float | None]:
        """Close an optimizer step: what was told since the last one is recorded and judged.

        Args:
            step: Optimizer steps done, this one included; over the whole training, it grows.
            loss: The step's loss.
            lr: The learning rate that the step used.
            metrics: Other numbers by name, such as `value_loss=...` or `**{"kl/ref": ...}`; a name of rlwatch's own
                stands in place of what was measured.

        Returns:
            The step's metrics, as they are recorded.

        Raises:
            TypeError: `step` is not an int, or a metric is not a number.
            ValueError: `step` does not grow, or a metric is several numbers.
        """
        self._check_open()
        number = inputs.step_number(step, self._steps.last)
        own = {name: inputs.number(name, value) for name, value in metrics.items()}
        own |= {name: inputs.number(name, x) for name, x in (("loss", loss), ("lr", lr)) if x is not None}
        return self._guard.run("recording a step", self._steps.end, number, own, self._session) or {}

    @property
    def should_stop(self) -> bool:
        """See the class."""
        return self._acting.stopped_by is not None

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint has to hold so that another process can go on where this one is: plain values, small."""
        judged = self._session.judged() if self._session is not None else None
        return {"version": 1, "steps": self._steps.state(), "judged": judged}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where another Monitor was when its `state_dict` was saved, in a run directory of this one's own.

        What was usual at the run's beginning is known again, steps go on from the one that was saved, and an alert that
        was told and is not over is not told again.

        Raises:
            ValueError: Steps have been recorded already, or it is no such state, or that of another version.
        """
        if self._steps.last is not None:
            raise ValueError("load_state_dict() comes before the first step()")
        if not isinstance(state, Mapping) or state.get("version") != 1:
            raise ValueError("this is no state_dict() of a Monitor, or one of another version of rlwatch")
        if state["judged"] is not None and self._session is not None:
            self._session.judge_on(state["judged"])
        self._steps.restore(state["steps"])

    def close(self) -> None:
        """End the run. Also done at the end of a `with` block and of the process."""
        self._closed = True
        if self._session is not None:
            self._session.close()

    def __enter__(self) -> Monitor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("this Monitor is closed: make another one for another run")

    def _begin(self, dir: str | os.PathLike[str], name: str | None, config: Mapping[str, Any]) -> None:
        script = Path(sys.argv[0]).stem if sys.argv and sys.argv[0] not in ("", "-c") else "run"
        name = name or f"{script}-{datetime.now():%Y%m%d-%H%M%S}"
        self._session = Session(dir, name, run_info(config), self._guard, acting=self._acting, wanted=self._wanted)
        self.run_dir = self._session.path
        where = self.run_dir or "nowhere: the run directory could not be made, there will be alerts only"
        stdout.say(f"rlwatch: watching {self._session.name}, writing to {where}; see it with: rlwatch dashboard {dir}")
