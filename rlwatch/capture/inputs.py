"""What a user hands to `Monitor`, as arrays of float64; what does not fit is an error that says what would.

Lists, numpy arrays and tensors of any dtype and on any device are taken alike, and always copied: what the training
does to them afterwards changes nothing here. torch is not imported; a tensor brings what is needed.

Every function here raises TypeError for what is of the wrong kind, and ValueError for another shape or other values.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from rlwatch.signals.arrays import BoolArray, FloatArray


def numbers(name: str, value: Any) -> FloatArray:
    """An array of any shape, copied; a None in a list is NaN."""
    if value is None:
        raise TypeError(f"{name}= takes numbers, and is None")
    try:
        found = np.asarray(_plain(value))
    except (ValueError, TypeError, RuntimeError) as error:
        if isinstance(value, (list, tuple)):
            raise ValueError(
                f"{name}= is a list of rows of different lengths, or not of numbers: pad the rows to one length and "
                f"hide the padding with mask= ({error})"
            ) from error
        raise TypeError(f"{name}= takes numbers, not {type(value).__name__}: {error}") from error
    if found.dtype.kind not in "biufO":
        raise TypeError(f"{name}= takes numbers, and holds {found.dtype}")
    try:
        return np.array(found, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise TypeError(f"{name}= takes numbers, not {_shown(value)}") from error


def number(name: str, value: Any) -> float | None:
    """One number: Python's, numpy's, or a tensor of one element; None stays None."""
    if value is None:
        return None
    found = numbers(name, value)
    if found.size != 1:
        raise ValueError(f"{name}= takes one number and has shape {found.shape}: take its mean, or whatever is meant")
    return float(found.reshape(()))


def step_number(step: Any, last: int | None) -> int:
    """An optimizer step's number."""
    if isinstance(step, (bool, np.bool_)):
        raise TypeError(f"step= takes the number of optimizer steps done, an int, not {step!r}")
    try:
        found = operator.index(step)
    except TypeError:
        raise TypeError(f"step= takes the number of optimizer steps done, an int, not {_shown(step)}") from None
    if found < 0:
        raise ValueError(f"step= takes the number of optimizer steps done, not {found}")
    if last is not None and found <= last:
        raise ValueError(
            f"step {found} comes after step {last}: steps must grow, by one an optimizer step over the whole training; "
            "a training that begins again needs a Monitor of its own"
        )
    return found


def per_completion(name: str, value: Any, count: int) -> FloatArray:
    """(count,), one number a completion."""
    found = numbers(name, value)
    if found.shape != (count,):
        raise ValueError(
            f"{name}= has shape {found.shape}, but there are {count} completions: it takes one number a completion, "
            f"shape ({count},)"
        )
    return found


def facts(name: str, value: Any, count: int) -> FloatArray:
    """(count,), 1 or 0 a completion."""
    found = per_completion(name, value, count)
    strange = found[~np.isin(found, (0, 1))]
    if strange.size:
        raise ValueError(f"{name}= takes True or False a completion, and holds {strange[0]:g}")
    return found


def verdicts(name: str, value: Any, count: int) -> FloatArray:
    """(count,), 1 or 0 a completion, NaN where it is not known."""
    found = per_completion(name, value, count)
    strange = found[~np.isin(found, (0, 1)) & ~np.isnan(found)]
    if strange.size:
        raise ValueError(
            f"{name}= takes True or False a completion, None or NaN where that is not known, and holds {strange[0]:g}"
        )
    return found


def token_counts(name: str, value: Any, count: int) -> FloatArray:
    """(count,), numbers of tokens."""
    found = per_completion(name, value, count)
    strange = found[~((found >= 0) & np.isfinite(found))]
    if strange.size:
        raise ValueError(f"{name}= takes the number of tokens of each completion, and holds {strange[0]:g}")
    return found


def per_token(name: str, value: Any, shape: tuple[int, ...], like: str = "logprobs") -> FloatArray:
    """(B, T), one number a token."""
    found = numbers(name, value)
    if found.shape != shape:
        raise ValueError(
            f"{name}= has shape {found.shape}, but {like}= has {shape}: both take one number a token, (completions, "
            "tokens), with the prompt's tokens cut off or masked out and the same shift by one"
        )
    return found


def token_mask(value: Any, shape: tuple[int, ...]) -> BoolArray:
    """(B, T), which tokens count."""
    found = per_token("mask", value, shape)
    strange = found[(found != 0) & (found != 1)]
    if strange.size:
        raise ValueError(
            f"mask= takes 1 for the tokens that the loss counts and 0 for others, and holds {strange[0]:g}"
        )
    return np.asarray(found == 1)


def token_advantages(value: Any, shape: tuple[int, ...]) -> FloatArray:
    """(B, 1) or (B, T): one a completion, or one a token."""
    found = numbers("advantages", value)
    if found.shape == shape[:1]:
        found = found[:, None]
    if found.shape not in (shape, (shape[0], 1)):
        raise ValueError(
            f"advantages= has shape {found.shape}, but logprobs= has {shape}: it takes one number a completion, "
            f"({shape[0]},), or one a token, {shape}"
        )
    return found


def clip_range(value: Any) -> tuple[float, float] | None:
    """How far the ratio may go below 1 and above; one number for both."""
    if value is None:
        return None
    found = numbers("epsilon", value).ravel()
    if found.size not in (1, 2) or not (found >= 0).all():
        raise ValueError(f"epsilon= takes one number, or (low, high), both at least 0, not {_shown(value)}")
    return float(found[0]), float(found[-1])


def group_members(groups: Any, group_size: Any, count: int) -> list[list[int]] | None:
    """Which completions make a group, in the order in which the groups first appear; None where there are no groups."""
    if groups is not None and group_size is not None:
        raise ValueError("groups= and group_size= say the same thing: give one of them")
    if group_size is not None:
        if isinstance(group_size, bool) or not hasattr(group_size, "__index__"):
            raise TypeError(f"group_size= takes an int, completions a prompt, not {_shown(group_size)}")
        size = operator.index(group_size)
        if size < 1 or count % size:
            raise ValueError(
                f"group_size={size} does not divide {count} completions; for groups of different sizes, give "
                "groups=, one id a completion"
            )
        return [list(range(start, start + size)) for start in range(0, count, size)]
    if groups is None:
        return None
    ids = rows_of("groups", groups, count)
    members: dict[Hashable, list[int]] = {}
    for row, key in enumerate(ids):
        try:
            members.setdefault(key, []).append(row)
        except TypeError:
            raise TypeError(f"groups= takes an int or a string a completion, not {_shown(key)}") from None
    return list(members.values())


def rows_of(name: str, value: Any, count: int) -> list[Any]:
    """One thing a completion, of whatever kind, as a list."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"{name}= takes one entry a completion, a list of {count}, not {_shown(value)}")
    plain = _plain(value)
    entries = list(np.atleast_1d(plain)) if isinstance(plain, np.ndarray) else list(plain)
    if len(entries) != count:
        raise ValueError(
            f"{name}= has {len(entries)} entries, but there are {count} completions: it takes one a completion"
        )
    return [entry.tolist() if isinstance(entry, (np.ndarray, np.generic)) else entry for entry in entries]


def row_numbers(value: Any, count: int, known: int) -> list[int]:
    """(B,), which of the rollouts' completions the rows of a micro-batch are."""
    if not known:
        raise ValueError("rows= says which completions of monitor.rollouts() these are: call that first")
    found = per_completion("rows", value, count)
    if not ((found >= 0) & (found < known) & (found == np.floor(found))).all():
        raise ValueError(
            f"rows= says which of the {known} completions of monitor.rollouts() each row is, 0 to {known - 1}, "
            f"and holds {_shown(found.tolist())}"
        )
    return [int(row) for row in found]


def gradients(parameters: Any) -> list[Any]:
    """The gradients of torch parameters, of those that have one."""
    several = [parameters] if hasattr(parameters, "detach") else parameters
    found = list(several) if isinstance(several, Iterable) else [several]
    for parameter in found:
        if not hasattr(parameter, "grad"):
            raise TypeError(
                f"parameters= takes torch parameters, as model.parameters() gives them, not {type(parameter).__name__}"
            )
    return [parameter.grad for parameter in found if parameter.grad is not None]


def _plain(value: Any) -> Any:
    """Tensors as numpy arrays, also inside of lists."""
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        value = value.full_tensor() if hasattr(value, "full_tensor") else value
        value = value.detach().cpu()
        return (value.float() if value.is_floating_point() and value.element_size() < 4 else value).numpy()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
