"""A training that resumes from a checkpoint: which run it goes on with, and where everything stood.

transformers saves its `TrainerState` with every checkpoint and loads it from there. rlwatch keeps a bookmark in it,
under a key of its own among the states of callbacks: saved with the checkpoint or not at all, there wherever the
checkpoint is copied to, and without any setting. (An `ExportableState` would be kept in the same place; but a training
that began without such a callback and is resumed with it fails when it saves: transformers does not expect a new one.)
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rlwatch.capture.correctness import Correctness
from rlwatch.detect.engine import Engine
from rlwatch.runs.reader import latest_alerts, read_alerts, read_info, stream_records
from rlwatch.runs.records import Alert, AlertState
from rlwatch.signals.groups import RewardRange

KEY = "rlwatch"
"""Under which the bookmark is kept among the states of callbacks."""


@dataclass(frozen=True)
class Bookmark:
    """What a checkpoint says about the run that it belongs to.

    Args:
        step: The last step that was watched. Less than the checkpoint's where the training went on unwatched.
        run: The run directory's name; empty where there was none.
        id: The run's id.
        resumes: How often the run had been resumed. It tells the branch: another one may have been taken since.
        memory: What the rewards had shown so far, see [`Memory`][rlwatch.capture.resume.Memory].
    """

    step: int
    run: str = ""
    id: str = ""
    resumes: int = 0
    memory: Mapping[str, Any] = field(default_factory=dict)

    def put(self, state: Any) -> None:
        """Have it saved with the next checkpoint."""
        state.stateful_callbacks[KEY] = asdict(self)

    @classmethod
    def of(cls, state: Any) -> Bookmark | None:
        """The bookmark of the checkpoint that a training resumed from; None where it was saved without rlwatch.

        Raises:
            ValueError: There is something else in its place.
        """
        data = state.stateful_callbacks.get(KEY)
        if data is None:
            return None
        try:
            bookmark = cls(**{name: data[name] for name in ("step", "run", "id", "resumes", "memory")})
        except (KeyError, TypeError) as error:
            raise ValueError(f"the checkpoint holds {data!r} where rlwatch's bookmark should be") from error
        kinds = ((bookmark.step, int), (bookmark.run, str), (bookmark.id, str), (bookmark.resumes, int))
        if not all(type(value) is kind for value, kind in kinds) or not isinstance(bookmark.memory, dict):
            raise ValueError(f"the checkpoint holds {data!r} where rlwatch's bookmark should be")
        return bookmark


@dataclass(frozen=True)
class Resumption:
    """How a run goes on.

    Args:
        step: The step that the training resumes from.
        run: The run directory that goes on, or None if the run has to be begun anew.
        info: What its run.json says.
        back_to: The newest of its steps that the training rests on: later ones are taken back.
        missing: Why it has to be begun anew, in words for a person.
    """

    step: int
    run: Path | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    back_to: int = 0
    missing: str = ""

    def in_words(self) -> str:
        """What a person is told."""
        if self.run is None:
            return f"the training resumes after step {self.step}, and a new run begins there: {self.missing}."
        if self.back_to < self.step:
            return f"the run goes on after step {self.back_to}; {self.back_to + 1} to {self.step} are not in it."
        return f"the run goes on after step {self.step}."


def whereabouts(output_dir: str) -> dict[str, str]:
    """What run.json holds to tell a training that goes on from one that starts off from its checkpoint."""
    try:
        return {"output_dir": output_dir, "cwd": os.getcwd()}
    except OSError:  # somebody has removed it
        return {"output_dir": output_dir, "cwd": ""}


def find_run(root: str | os.PathLike[str], step: int, bookmark: Bookmark | None, output_dir: str) -> Resumption:
    """The run that a checkpoint belongs to.

    It is looked for in the folder that runs are made in, under the name that it had, and known by its id. A training
    that writes its own checkpoints elsewhere is another one: what the first made of these steps is left as it is.
    """
    if bookmark is None or not bookmark.run:
        return Resumption(step, missing="the checkpoint was saved without rlwatch")
    run = Path(root) / bookmark.run
    if Path(bookmark.run).name != bookmark.run or not run.is_dir():
        return Resumption(step, missing=f"its run {bookmark.run} is not in {root}")
    try:
        info = read_info(run)
    except ValueError as error:
        return Resumption(step, missing=f"its run {run} cannot be used: {error}")
    if info.get("id") != bookmark.id:
        return Resumption(step, missing=f"{run} is another run than that of the checkpoint")
    if not _same_output_dir(info, whereabouts(output_dir)):
        return Resumption(step, missing=f"it starts off from a checkpoint of {run} with an output_dir of its own")
    branched = [entry["step"] for entry in resumes(info)[bookmark.resumes :]]
    return Resumption(step, run, info, back_to=min([step, bookmark.step, *branched]))


def resumes(info: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What run.json says of each time that the run was resumed."""
    entries = info.get("resumed")
    sound = entries if isinstance(entries, list) else []
    return [entry for entry in sound if isinstance(entry, dict) and isinstance(entry.get("step"), int)]


def replay(run: Path, engine: Engine) -> dict[str, Alert]:
    """Bring a fresh engine to where the run's records end; the alerts that are open there, by rule. Tells nobody."""
    standing: dict[str, Alert] = {}
    for record in stream_records(run):
        for change in engine.feed(record):
            if change.state is AlertState.RESOLVED:
                standing.pop(change.rule, None)
            else:
                standing[change.rule] = change
    return standing


def corrections(run: Path, standing: Mapping[str, Alert], step: int) -> list[Alert]:
    """What has to be told so that the run's alerts.jsonl says what its rules say; nothing, as a rule.

    It has to where a line was lost, or where the rules are those of another version of rlwatch: an alert that nobody
    was told of is told, and one that no rule holds any more is over.
    """
    told = {(a.rule, a.since): a for a in latest_alerts(read_alerts(run).items) if a.state is AlertState.FIRING}
    now = time.time()
    changes = []
    for alert in standing.values():
        known = told.pop((alert.rule, alert.since), None)
        if known is None or known.severity is not alert.severity:
            changes.append(replace(alert, step=step, time=now))
    over = (replace(a, state=AlertState.RESOLVED, step=step, time=now, resolved_step=step) for a in told.values())
    return [*over, *changes]


class Memory:
    """What the rewards have shown so far: their range, and the values of each function.

    Every rank has the same, for it is made of the rewards of all of them.

    Args:
        functions: The reward functions' names, and their weights: of others, the same rewards mean something else.
        listener: Its `seen` is the range of the weighted rewards.
        correctness: Knows the values.
    """

    def __init__(
        self, functions: tuple[Sequence[str], Sequence[float]], listener: Any, correctness: Correctness
    ) -> None:
        self._functions = [list(functions[0]), list(functions[1])]
        self._listener = listener
        self._correctness = correctness

    def save(self) -> dict[str, Any]:
        """It as JSON."""
        seen: RewardRange = self._listener.seen
        return {
            "functions": self._functions,
            "rewards": [seen.worst, seen.best] if math.isfinite(seen.best) else None,
            "values": [list(values) for values in self._correctness._values],
            "looked_at": self._correctness._looked_at,
        }

    def load(self, saved: Mapping[str, Any]) -> None:
        """Take it up again; nothing of it where the reward functions are others now.

        Raises:
            ValueError: It is not what was saved.
        """
        if saved.get("functions") != self._functions:
            return
        try:
            values = [[float(value) for value in seen] for seen in saved["values"]]
            looked_at, pair = int(saved["looked_at"]), saved["rewards"]
            worst, best = (math.inf, -math.inf) if pair is None else map(float, pair)
        except (KeyError, TypeError) as error:
            raise ValueError(f"the checkpoint holds {dict(saved)!r} where the rewards' range should be") from error
        if len(values) == len(self._correctness._values):
            self._correctness._values, self._correctness._looked_at = values, looked_at
        self._listener.seen = RewardRange(worst, best)


def _same_output_dir(info: Mapping[str, Any], here: Mapping[str, str]) -> bool:
    """As it was given, so that a project may be moved as a whole; or in the end the same place."""
    there = {key: str(info.get(key, "")) for key in here}
    if there["output_dir"] == here["output_dir"]:
        return True
    one, other = (os.path.abspath(os.path.join(place["cwd"], place["output_dir"])) for place in (there, here))
    return one == other
