"""Weights that were made once and are used by many trainings: kept in a folder, by what they are and who made them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import torch

from rlwatch._version import __version__

State = dict[str, torch.Tensor]


def kept(folder: Path | None, name: str, make: Callable[[], State]) -> State:
    """The weights of that name: from the folder if it has them, else made, and written there for the next one.

    The file's name has rlwatch's and torch's versions in it: another version may make others. It is written by replace,
    so that several processes may ask for the same at once; a file that cannot be read is made anew.

    Args:
        folder: Where they are kept; None keeps nothing.
        name: What they are, their seed included.
        make: Makes them.
    """
    if folder is None:
        return make()
    path = folder / f"{name}-rlwatch{__version__}-torch{torch.__version__}.pt"
    try:
        found = torch.load(path, weights_only=True)
    except Exception:  # it is not there, or was cut off, for which torch raises many kinds of errors
        found = None
    if found is not None:
        assert isinstance(found, dict)
        return found
    folder.mkdir(parents=True, exist_ok=True)  # before what takes long: where it cannot be made, that is known at once
    state = make()
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    torch.save(state, unfinished)
    unfinished.replace(path)
    return state
