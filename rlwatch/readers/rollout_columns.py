"""Which column of a dump of completions is what: by its name, as the frameworks and people spell it.

TRL's completions_*.parquet   step, prompt, completion, <reward functions>, advantage
verl's rollout_data_dir       input, output, gts, score, step, uid
prime-rl's rollouts           problem_id, rewards, output_tokens (token ids), completion, step
NeMo-RL's train_data_step*    content, rewards, token_ids, token_loss_mask
rlwatch's own shards          step, group, index, prompt_id, reward, reward/<function>, correct, length, ...
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Literal

Kind = Literal["number", "bool", "text", "numbers", "nested", "nothing"]
"""What a column holds: numbers, truth values, texts, lists of numbers, lists or dicts of other things, only nulls."""

PARQUET = b"PAR1"
"""How a parquet file begins."""

STEP = ("step", "global_step", "iteration", "train_step", "training_step", "iter")
GROUP = (
    "group", "group_id", "group_idx", "group_index", "uid", "prompt_id", "prompt_idx", "prompt_index", "prompt_uid",
    "problem_id", "problem_idx", "example_id", "question_id", "task_id",
)  # fmt: skip
PROMPT = ("prompt", "input", "question", "prompts", "prompt_text", "query", "problem", "instruction", "messages")
COMPLETION = (
    "completion", "response", "output", "generation", "text", "completions", "responses", "generated_text",
    "completion_text", "response_text", "output_text",
)  # fmt: skip
CONVERSATION = ("messages", "content", "conversation", "message_log")
REWARD = ("reward", "rewards", "score", "total_reward", "acc", "correct", "is_correct", "accuracy")
CORRECT = ("correct", "acc", "is_correct", "accuracy")
LENGTH = (
    "length", "completion_length", "response_length", "completion_tokens", "response_tokens", "output_tokens",
    "output_length", "num_completion_tokens", "num_response_tokens", "num_output_tokens", "num_tokens",
    "completion_len", "response_len", "output_len",
)  # fmt: skip
TOKENS = (
    "completion_ids", "response_ids", "output_ids", "output_tokens", "completion_token_ids", "response_token_ids",
    "output_token_ids", "completion_tokens", "response_tokens",
)  # fmt: skip
MASK = ("token_loss_mask", "completion_mask", "response_mask", "loss_mask")
ALL_TOKENS = ("token_ids", "input_ids")
TRUNCATED = ("truncated", "is_truncated")
FINISH = ("finish_reason", "stop_reason")
ADVANTAGE = ("advantage", "advantages")

_FUNCTION = re.compile(r"rewards?[/.](?P<of>.+)|reward_(?P<after>.+)|(?P<before>.+)_reward", re.IGNORECASE)
_STATISTIC = re.compile(r"(^|_)(mean|std|var|min|max|sum|total|final|average|group|model|weights?)(_|$)", re.IGNORECASE)
_TRL = ("step", "prompt", "completion")


@dataclass(frozen=True)
class Columns:
    """The columns that matter, by what they are; None where there is none.

    Args:
        format: The format's name: `trl-completions`, `verl-rollouts` or `rollouts`.
        framework: Who wrote it, where the columns tell.
        reward: The total. None where there are only the functions' scores, which then are added up.
        functions: The name of each reward function, and its column.
        conversation: Prompt and completion in one, a list of messages or texts.
        length: Tokens of the completion.
        tokens: The completion's token ids.
        mask: 1 for each token that the policy wrote.
        all_in_one: Token ids of prompt and completion, and the mask that tells them apart, where nothing else does.
        finish: Why the sampler stopped.
        own: It is one of rlwatch's shards.
    """

    format: str = "rollouts"
    framework: str | None = None
    step: str | None = None
    group: str | None = None
    prompt: str | None = None
    completion: str | None = None
    conversation: str | None = None
    reward: str | None = None
    functions: tuple[tuple[str, str], ...] = ()
    length: str | None = None
    tokens: str | None = None
    mask: str | None = None
    all_in_one: tuple[str, str] | None = None
    truncated: str | None = None
    finish: str | None = None
    correct: str | None = None
    advantage: str | None = None
    own: bool = False

    @classmethod
    def of(cls, kinds: Mapping[str, Kind]) -> Columns | None:
        """The columns of a file with these, in its order; None where it is no dump of completions."""
        if not is_rollouts(kinds):
            return None
        if _is_trl(kinds):
            names = [name for name, kind in kinds.items() if kind == "number" and name not in (*_TRL, *ADVANTAGE)]
            mine = {"functions": tuple((name, name) for name in names), "completion": "completion"}
            return cls("trl-completions", "trl", "step", prompt="prompt", advantage="advantage", **mine)  # type: ignore[arg-type]
        find = _Finder(kinds)
        own = _is_own(kinds)
        completion = find(COMPLETION, "text", "nested")
        conversation = None if completion else find(CONVERSATION, "nested")
        reward = find(REWARD, "number", "bool", "nothing") or find(REWARD, "text")
        mask, everything = find(MASK, "numbers"), find(ALL_TOKENS, "numbers")
        verl = {"input", "output", "score"} <= set(kinds)
        return cls(
            format="verl-rollouts" if verl else "rollouts",
            framework="verl" if verl else None,
            step=find(STEP, "number", "text"),
            group=find(GROUP, "number", "text"),
            prompt=find([name for name in PROMPT if name != conversation], "text", "nested"),
            completion=completion,
            conversation=conversation,
            reward=reward,
            functions=_functions(kinds, reward),
            length=find(LENGTH, "number"),
            tokens=find(TOKENS, "numbers"),
            mask=mask,
            all_in_one=(everything, mask) if everything and mask and not (completion or conversation) else None,
            truncated=find(TRUNCATED, "bool", "number"),
            finish=find(FINISH, "text"),
            correct=find(CORRECT, "bool", "number"),
            advantage=find(ADVANTAGE, "number"),
            own=own,
        )

    def names(self) -> list[str]:
        """All of them, each once."""
        single = (
            self.step, self.group, self.prompt, self.completion, self.conversation, self.reward, self.length,
            self.tokens, self.mask, *(self.all_in_one or ()), self.truncated, self.finish, self.correct, self.advantage,
        )  # fmt: skip
        return list(dict.fromkeys(name for name in (*single, *(c for _, c in self.functions)) if name is not None))

    def within(self, names: Container[str]) -> Columns:
        """Those of them that a file has; the functions stay as they are."""
        gone = {
            field.name: None
            for field in fields(self)
            if field.name not in ("format", "framework", "functions", "own")
            and (value := getattr(self, field.name)) is not None
            and any(name not in names for name in (value if isinstance(value, tuple) else (value,)))
        }
        return replace(self, **gone)  # type: ignore[arg-type]

    def describe(self) -> str:
        """Which column is taken for what, in one line for a person."""
        roles = {
            "step": self.step,
            "prompt": self.prompt or self.conversation,
            "group": self.group,
            "reward": self.reward or " + ".join(column for _, column in self.functions),
            "completion": self.tokens or self.completion or self.conversation or (self.all_in_one or (None,))[0],
            "tokens": self.length or self.mask or self.tokens,
            "correct": self.correct,
        }
        return ", ".join(f"{role}: {column}" for role, column in roles.items() if column)


def is_rollouts(columns: Iterable[str]) -> bool:
    """Whether columns of these names are those of a dump: a row a completion, with a reward, and not metrics.

    The names alone: what is in them may still show that it is something else.
    """
    names = list(columns)
    lowered = {name.lower() for name in names}
    if _is_trl(names) or _is_own(names):
        return True
    texts = lowered & {*COMPLETION, *CONVERSATION, *TOKENS, *ALL_TOKENS}
    place = lowered & {*STEP, *GROUP, *PROMPT, *CONVERSATION, *ADVANTAGE}
    if not texts or not lowered & set(REWARD):
        return False
    return bool(place - texts) or bool(lowered & {*CONVERSATION, *ALL_TOKENS} and lowered & set(MASK))


def _is_trl(columns: Iterable[str]) -> bool:
    """TRL writes no column of groups, and no total of the rewards."""
    names = list(columns)
    return tuple(names[:3]) == _TRL and "advantage" in names and not {name.lower() for name in names} & set(GROUP)


def _is_own(columns: Iterable[str]) -> bool:
    return {"step", "group", "index", "prompt_id", "reward", "logprob_sum"} <= set(columns)


def _functions(kinds: Mapping[str, Kind], reward: str | None) -> tuple[tuple[str, str], ...]:
    """What single reward functions gave, beside the total: `reward/f`, `rewards/f`, `reward_f` or `f_reward`."""
    found: dict[str, str] = {}
    for column, kind in kinds.items():
        match = _FUNCTION.fullmatch(column)
        if match and column != reward and kind in ("number", "nothing"):
            name = match["of"] or match["after"] or match["before"]
            if match["of"] or not _STATISTIC.search(name):
                found.setdefault(name, column)
    return tuple(found.items())


class _Finder:
    def __init__(self, kinds: Mapping[str, Kind]) -> None:
        self._names = {name.lower(): name for name in reversed(list(kinds))}
        self._kinds = kinds

    def __call__(self, spellings: Iterable[str], *kinds: Kind) -> str | None:
        """The first of the spellings that is there and holds what it should."""
        found = (self._names.get(spelling) for spelling in spellings)
        return next((name for name in found if name is not None and self._kinds[name] in kinds), None)
