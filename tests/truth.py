"""What a step's metrics must be, from raw tensors and TRL's own loss code, with none of rlwatch's."""

from __future__ import annotations

import copy
import math
import statistics
from typing import Any

import numpy as np
import torch
from transformers import TrainerCallback

from tiny import brevity, odd_digit


class Truth(TrainerCallback):
    """Watches a trainer by its own means and computes, for every step, the metrics by brute force.

    Each micro-batch's loss is computed a second time by TRL's own code, with beta, entropy bonus and auxiliary loss
    off: its gradients are the policy's part.
    """

    def __init__(self) -> None:
        self.steps: list[dict[str, float]] = []
        self.generations: list[dict[str, Any]] = []
        self._micro_batches: list[dict[str, Any]] = []
        self._draft: dict[str, Any] | None = None
        self._best, self._worst = -math.inf, math.inf
        self._newest, self._newest_since = -1, 0
        self._trained_on: set[int] = set()
        self._before: list[torch.Tensor] = []
        self._norms: dict[str, float] = {}
        self._raw: list[tuple[int, list[dict[str, Any]], dict[str, float]]] = []

    # what the trainer does, recorded

    def reward(self, prompts: Any, completions: Any, completion_ids: Any, **_: Any) -> list[float]:
        """A further reward function, of no value, that sees what is rewarded."""
        if self.trainer.model.training:
            ends = {self.trainer.processing_class.eos_token_id, self.trainer.processing_class.pad_token_id}
            first, second = odd_digit(prompts, completions), brevity(completion_ids)
            self._draft = {
                "functions": {"odd_digit": first, "brevity": second, "reward": [0.0] * len(first)},
                "total": [a + 0.5 * b for a, b in zip(first, second, strict=True)],
                "correct": [value == 1.0 for value in first],
                "length": [len(ids) for ids in completion_ids],
                "truncated": [ids[-1] not in ends for ids in completion_ids],
                "ids": [tuple(ids) for ids in completion_ids],
            }
        return [0.0] * len(prompts)

    def listen(self, trainer: Any) -> None:
        self.trainer = trainer
        self.is_rloo = type(trainer).__name__ == "RLOOTrainer"
        self.size = trainer.num_generations
        generate, compute_loss, training_step = (
            trainer._generate_and_score_completions,
            trainer.compute_loss,
            trainer.training_step,
        )
        self.forward = trainer._get_per_token_logps_and_entropies
        self.norm = trainer._get_grad_norm

        def recorded_generation(*args: Any, **kwargs: Any) -> Any:
            output = generate(*args, **kwargs)
            if trainer.model.training:
                assert self._draft is not None
                rows = len(output["advantages"])
                output["test_row"] = torch.arange(rows) + 1000 * len(self.generations)
                self.generations.append(self._draft)
            return output

        def recorded_loss(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            if model.training:
                self._micro_batches.append(self.raw(model, inputs))
            return compute_loss(model, inputs, *args, **kwargs)

        def recorded_step(*args: Any, **kwargs: Any) -> Any:
            loss = training_step(*args, **kwargs)
            self._micro_batches[-1]["loss"] = loss.item()
            return loss

        def recorded_norm(*args: Any, **kwargs: Any) -> Any:
            norm = self.norm(*args, **kwargs)
            self._norms["grad/norm"] = float(norm)
            return norm

        trainer._generate_and_score_completions = recorded_generation
        trainer.compute_loss, trainer.training_step = recorded_loss, recorded_step
        trainer._get_grad_norm = recorded_norm

    def raw(self, model: Any, inputs: Any) -> dict[str, Any]:
        trainer = self.trainer
        keep = ("beta", "_entropy_bonus_enabled", "aux_loss_enabled")
        saved = {name: getattr(trainer, name) for name in keep if hasattr(trainer, name)}
        metrics = copy.deepcopy(trainer._metrics)
        hooked = {
            name: vars(trainer).pop(name, None)
            for name in ("_get_per_token_logps_and_entropies", "get_high_entropy_mask")
        }
        seen: dict[str, Any] = {}

        def forward(*args: Any, **kwargs: Any) -> Any:
            result = self.forward(*args, **kwargs)
            seen["logps"], seen["entropies"], seen["others"] = result[0], result[1], result[2:]
            return result

        trainer._get_per_token_logps_and_entropies = forward
        for name in saved:
            setattr(trainer, name, 0.0 if name == "beta" else False)
        loss = type(trainer)._compute_loss(trainer, model, inputs)
        if self.is_rloo:  # the trainer divides it by the accumulation steps
            loss = loss / trainer.current_gradient_accumulation_steps
        parameters = [p for p in trainer.model.parameters() if p.requires_grad]
        try:
            found = torch.autograd.grad(loss, [seen["logps"], *parameters], allow_unused=True)
        except RuntimeError:  # reentrant checkpointing allows backward() alone
            found = [torch.autograd.grad(self.on_a_leaf(model, inputs, seen), seen["leaf"])[0]]
        del trainer._get_per_token_logps_and_entropies
        vars(trainer).update({name: hook for name, hook in hooked.items() if hook is not None})
        for name, value in saved.items():
            setattr(trainer, name, value)
        trainer._metrics = metrics
        mask = inputs["completion_mask"]
        if "tool_mask" in inputs:
            mask = mask * inputs["tool_mask"]
        optional = ("old_per_token_logps", "old_logps", "ref_per_token_logps", "sampling_per_token_logps")
        return {
            "rows": inputs["test_row"].tolist(),
            "mask": mask.bool().numpy(),
            "logps": seen["logps"].detach().double().numpy(),
            "entropies": seen["entropies"].detach().double().numpy(),
            "advantages": inputs["advantages"].double().numpy(),
            "gradient": found[0].double().numpy(),
            "parameters": [None if g is None else g.double() for g in found[1:]],
            **{name: inputs[name].double().numpy() for name in optional if inputs.get(name) is not None},
        }

    def on_a_leaf(self, model: Any, inputs: Any, seen: dict[str, Any]) -> torch.Tensor:
        leaf = seen["logps"].detach().clone().requires_grad_()
        seen["leaf"] = leaf
        others = (None for _ in seen["others"])  # a router's auxiliary loss; TRL before 1.6 has none
        result = (leaf, seen["entropies"].detach(), *others)
        self.trainer._get_per_token_logps_and_entropies = lambda *_, **__: result
        return type(self.trainer)._compute_loss(self.trainer, model, inputs)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any, optimizer: Any, **_: Any) -> None:
        parameters = [p for p in self.trainer.model.parameters() if p.requires_grad]
        applied = [p.grad.double() for p in parameters if p.grad is not None]
        self._norms["grad/applied_norm"] = math.sqrt(sum(float((g**2).sum()) for g in applied))
        self._norms["lr"] = optimizer.param_groups[0]["lr"]
        self._before = [p.detach().double().clone() for p in parameters]

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        after = [p.detach().double() for p in self.trainer.model.parameters() if p.requires_grad]
        moved = math.sqrt(sum(float(((a - b) ** 2).sum()) for a, b in zip(after, self._before, strict=True)))
        size = math.sqrt(sum(float((b**2).sum()) for b in self._before))
        self._norms |= {"update/norm": moved, "update/relative": moved / size}

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        batches, self._micro_batches = self._micro_batches, []
        self._raw.append((state.global_step, batches, self._norms))
        self._norms = {}
        self.steps.append(self.expected(*self._raw[-1]))

    def replay(self) -> None:
        """Compute all steps again, after a test has corrected what it knows better."""
        self._newest, self._newest_since = -1, 0
        self._trained_on: set[int] = set()
        self.steps = [self.expected(*step) for step in self._raw]

    # what that must give

    def expected(self, step: int, batches: list[dict[str, Any]], norms: dict[str, float]) -> dict[str, float]:
        for generation in self.generations:
            if "kinds" not in generation:
                self.sort_groups(generation)
        numbers = sorted({row // 1000 for batch in batches for row in batch["rows"]})
        fresh = [n for n in numbers if n > self._newest]
        if numbers[-1] > self._newest:
            self._newest, self._newest_since = numbers[-1], step
        self._trained_on.update(numbers)
        found = {
            "loss": sum(batch["loss"] for batch in batches),
            "rollouts/age": float(step - self._newest_since),
            "tokens/total": float(sum(sum(self.generations[n]["length"]) for n in self._trained_on)),
            **norms,
            **self.of_rollouts([self.generations[n] for n in numbers]),
            **self.of_tokens(batches),
            **self.of_weights(batches),
            **self.of_concentration(batches, fresh),
        }
        norm, limit = found["grad/norm"], self.trainer.args.max_grad_norm
        coefficient = min(1.0, limit / (norm + 1e-6)) if limit else 1.0
        found["grad/clip_coef"] = coefficient
        if batches[0]["parameters"]:
            parts: list[Any] = [None] * len(batches[0]["parameters"])
            for batch in batches:
                for index, gradient in enumerate(batch["parameters"]):
                    if gradient is not None:
                        parts[index] = gradient if parts[index] is None else parts[index] + gradient
            policy = math.sqrt(sum(float((g**2).sum()) for g in parts if g is not None))
            found["grad/policy_norm"], found["grad/effective_norm"] = policy, policy * coefficient
        else:  # without a regulariser all of it is the policy's
            found["grad/policy_norm"], found["grad/effective_norm"] = norm, found["grad/applied_norm"]
        return found

    def sort_groups(self, generation: dict[str, Any]) -> None:
        self._best = max(self._best, *generation["total"])
        self._worst = min(self._worst, *generation["total"])
        generation["kinds"] = []
        for start in range(0, len(generation["total"]), self.size):
            group = generation["total"][start : start + self.size]
            alike = max(group) - min(group) < 1e-6
            kind = "solved" if group[0] > self._best - 1e-6 else "failed" if group[0] < self._worst + 1e-6 else "stuck"
            if getattr(self.trainer, "multi_objective_aggregation", "") == "normalize_then_sum":
                columns = [values[start : start + self.size] for values in generation["functions"].values()]
                alike = all(max(column) - min(column) < 1e-6 for column in columns)
            generation["kinds"].append(kind if alike else "mixed")

    def of_rollouts(self, generations: list[dict[str, Any]]) -> dict[str, float]:
        size = self.size
        rows = {
            key: [x for g in generations for x in g[key]] for key in ("total", "correct", "length", "truncated", "ids")
        }
        kinds = [kind for g in generations for kind in g["kinds"]]
        starts = range(0, len(rows["total"]), size)
        groups = [rows["total"][s : s + size] for s in starts]
        lengths, correct, truncated = rows["length"], rows["correct"], rows["truncated"]
        rates = [(sum(correct[s : s + size]) + 0.5) / (size + 1) for s in starts]
        zero_std = sum(kind != "mixed" for kind in kinds) / len(kinds)
        dead = [kind != "mixed" for kind in kinds for _ in range(size)]
        found = {
            "reward/mean": statistics.fmean(rows["total"]),
            "reward/std": statistics.stdev(rows["total"]),
            "groups/zero_std": zero_std,
            **{f"groups/{kind}": kinds.count(kind) / len(kinds) for kind in ("solved", "failed", "stuck")},
            "groups/reward_std": statistics.fmean(statistics.stdev(group) for group in groups),
            "groups/excess": zero_std - statistics.fmean(p**size + (1 - p) ** size for p in rates),
            "groups/unique": statistics.fmean(len(set(rows["ids"][s : s + size])) / size for s in starts),
            "groups/wasted_tokens": sum(n for n, d in zip(lengths, dead, strict=True) if d) / sum(lengths),
            "length/mean": statistics.fmean(lengths),
            "length/truncated": statistics.fmean(truncated),
            "length/share_correct": statistics.fmean(correct),
        }
        for name in generations[0]["functions"]:
            found[f"reward/{name}"] = statistics.fmean(x for g in generations for x in g["functions"][name])
        for name, wanted in (("correct", True), ("incorrect", False)):
            mine = [i for i, c in enumerate(correct) if c is wanted]
            if mine:
                found[f"length/{name}"] = statistics.fmean(lengths[i] for i in mine)
                found[f"length/truncated_{name}"] = statistics.fmean(truncated[i] for i in mine)
        gaps = []
        for s in starts:
            right = [lengths[i] for i in range(s, s + size) if correct[i]]
            wrong = [lengths[i] for i in range(s, s + size) if not correct[i]]
            if right and wrong:
                gaps.append(statistics.fmean(wrong) - statistics.fmean(right))
        if gaps:
            found["length/gap"] = statistics.fmean(gaps)
        return found

    def of_tokens(self, batches: list[dict[str, Any]]) -> dict[str, float]:
        """Token by token, in Python."""
        trainer = self.trainer
        kind = "rloo" if self.is_rloo else trainer.loss_type
        per_row = self.is_rloo or getattr(trainer, "importance_sampling_level", "token") == "sequence"
        low, high = 1 - trainer.epsilon_low, 1 + trainer.epsilon_high
        clips = kind in ("grpo", "bnpo", "dr_grpo", "dapo", "luspo", "rloo")
        entropies, surprisals, advantages, by_correct = [], [], [], {True: [], False: []}
        ratios, clipped_low, clipped_high, clipped_rare, old_kl, ref_kl, gaps, sampler = [], [], [], [], [], [], [], []
        for batch in batches:
            for i, row in enumerate(batch["rows"]):
                generation = self.generations[row // 1000]
                tokens = [t for t in range(batch["mask"].shape[1]) if batch["mask"][i, t]]
                advantage = batch["advantages"][i]
                logps = batch["logps"][i]
                old = batch["old_per_token_logps"][i] if "old_per_token_logps" in batch else logps
                row_log = sum(logps[t] - old[t] for t in tokens) / max(1, len(tokens))
                if self.is_rloo:
                    row_log = sum(logps[t] for t in tokens) - batch["old_logps"][i]
                if per_row:
                    ratio = math.exp(row_log)
                    ratios.append(ratio)
                    clipped_low.append(ratio < low and advantage < 0)
                    clipped_high.append(ratio > high and advantage > 0)
                for t in tokens:
                    entropies.append(batch["entropies"][i, t])
                    by_correct[generation["correct"][row % 1000]].append(batch["entropies"][i, t])
                    surprisals.append(-logps[t])
                    advantages.append(advantage)
                    ratio = math.exp(logps[t] - old[t])
                    old_kl.append(ratio - 1 - (logps[t] - old[t]))
                    if not per_row:
                        ratios.append(ratio)
                        clipped_low.append(ratio < low and advantage < 0)
                        up = ratio > (trainer.epsilon_high if kind == "cispo" else high) and advantage > 0
                        clipped_high.append(up)
                        if up:
                            clipped_rare.append(math.exp(old[t]) < 0.2)
                    if "ref_per_token_logps" in batch:
                        difference = batch["ref_per_token_logps"][i, t] - logps[t]
                        ref_kl.append(math.exp(difference) - difference - 1)
                    if "sampling_per_token_logps" in batch:
                        gap = (old[t] if "old_per_token_logps" in batch else logps[t]) - batch[
                            "sampling_per_token_logps"
                        ][i, t]
                        gaps.append(abs(gap))
                        sampler.append(math.exp(gap))
        mean_a, mean_lp = statistics.fmean(advantages), -statistics.fmean(surprisals)
        found = {
            "entropy/mean": statistics.fmean(entropies),
            "surprisal/mean": statistics.fmean(surprisals),
            "cov/logp_advantage": statistics.fmean(
                (a - mean_a) * (-s - mean_lp) for a, s in zip(advantages, surprisals, strict=True)
            ),
            "advantage/mean": mean_a,
            "ratio/mean": statistics.fmean(ratios),
            "ratio/max": max(ratios),
        }
        found |= {f"entropy/p{q}": float(np.quantile(entropies, q / 100, method="inverted_cdf")) for q in (10, 50, 90)}
        ordered = sorted(entropies, reverse=True)
        whole = int(0.2 * len(ordered))
        rest = 0.2 * len(ordered) - whole
        top = sum(ordered[:whole]) + rest * ordered[min(whole, len(ordered) - 1)]
        found["entropy/top20"] = top / (0.2 * len(ordered))
        for name, wanted in (("correct", True), ("incorrect", False)):
            if by_correct[wanted]:
                found[f"entropy/{name}"] = statistics.fmean(by_correct[wanted])
        if clips:
            found["clip/low"] = statistics.fmean(clipped_low)
        if clips or kind == "cispo":
            found["clip/high"] = statistics.fmean(clipped_high)
        if clipped_rare and (clips or kind == "cispo"):
            found["clip/high_rare"] = statistics.fmean(clipped_rare)
        if not self.is_rloo:
            found["kl/old"] = statistics.fmean(old_kl)
        if ref_kl:
            found["kl/ref"] = statistics.fmean(ref_kl)
        if gaps:
            found["sampler/logp_gap_mean"], found["sampler/logp_gap_max"] = statistics.fmean(gaps), max(gaps)
            found["sampler/ratio_mean"] = statistics.fmean(sampler)
        return found

    def of_weights(self, batches: list[dict[str, Any]]) -> dict[str, float]:
        weights, lengths, long, wrong, sizes, active, tokens = [], [], [], [], [], 0, 0
        for batch in batches:
            for i, row in enumerate(batch["rows"]):
                generation = self.generations[row // 1000]
                mine = [abs(g) for g, m in zip(batch["gradient"][i], batch["mask"][i], strict=True) if m]
                active += sum(g != 0 for g in mine)
                tokens += len(mine)
                weights.append(sum(mine))
                sizes.append(abs(batch["advantages"][i]))
                lengths.append(generation["length"][row % 1000])
                long.append(lengths[-1] > statistics.median(generation["length"]))
                wrong.append(not generation["correct"][row % 1000])
        total, squares = sum(weights), sum(w * w for w in weights)
        found = {
            "signal/abs_advantage": statistics.fmean(sizes),
            "signal/active_tokens": active / tokens,
            "signal/ess": total**2 / squares / len(weights) if squares else 0.0,
        }
        if total:
            found["weight/long"] = sum(w for w, x in zip(weights, long, strict=True) if x) / total
            found["weight/incorrect"] = sum(w for w, x in zip(weights, wrong, strict=True) if x) / total
            if len(set(lengths)) > 1:
                found["weight/length_corr"] = statistics.correlation(weights, [float(n) for n in lengths])
            found |= self.of_kinds(batches, weights)
        return found

    def of_kinds(self, batches: list[dict[str, Any]], weights: list[float]) -> dict[str, float]:
        shares = dict.fromkeys(("length_q1", "length_q2", "length_q3", "length_q4", "hard", "easy", "truncated"), 0.0)
        rows = [row for batch in batches for row in batch["rows"]]
        for row, weight in zip(rows, weights, strict=True):
            generation, index = self.generations[row // 1000], row % 1000
            first = index // self.size * self.size
            rate = statistics.fmean(generation["correct"][first : first + self.size])
            marks = statistics.quantiles(generation["length"], n=4, method="inclusive")
            shares[f"length_q{1 + sum(generation['length'][index] > mark for mark in marks)}"] += weight
            shares["hard"] += weight * (rate <= 0.25)
            shares["easy"] += weight * (rate >= 0.75)
            shares["truncated"] += weight * generation["truncated"][index]
        return {f"weight/{name}": share / sum(weights) for name, share in shares.items()}

    def of_concentration(self, batches: list[dict[str, Any]], fresh: list[int]) -> dict[str, float]:
        """Of rows that no step before has trained on, each as it was when it was met first."""
        met: dict[int, float] = {}
        for batch in batches:
            for i, row in enumerate(batch["rows"]):
                if row // 1000 in fresh and row not in met:
                    met[row] = sum(abs(g) for g, m in zip(batch["gradient"][i], batch["mask"][i], strict=True) if m)
        total = sum(met.values())
        if not total:
            return {}
        groups: dict[tuple[int, int], float] = {}
        for row, weight in met.items():
            key = row // 1000, row % 1000 // self.size
            groups[key] = groups.get(key, 0.0) + weight
        ordered = sorted(met.values(), reverse=True)
        tenth, left = 0.0, 0.1 * len(ordered)
        for weight in ordered:
            tenth += weight * min(1.0, max(0.0, left))
            left -= 1
        needed, carried = 0.0, 0.0
        for weight in ordered:
            part = 1.0 if carried + weight < total / 2 else (total / 2 - carried) / weight
            needed, carried = needed + part, carried + part * weight
            if part < 1:
                break
        return {
            "weight/largest_group": max(groups.values()) / total,
            "weight/top_tenth": tenth / total,
            "weight/half": needed / len(ordered),
        }
