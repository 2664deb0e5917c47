"""What people have answered to a run's alerts, as pages show it; and where they answer: the only route that writes."""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import dash
from flask import Response, jsonify, request

from rlwatch.alerts import answering
from rlwatch.runs.acks import Answer, Stamp, Standing, read_answers, stamp_of, standing_of
from rlwatch.runs.reader import Skipped, newest_step
from rlwatch.runs.records import Alert
from rlwatch_dashboard.access import is_same_origin
from rlwatch_dashboard.roots import Roots

LONGEST_BODY = 4000
"""Bytes of an answer."""


@dataclass(frozen=True)
class Said:
    """What people have said of a run, as of now.

    Args:
        standing: What holds.
        step: The run's newest step.
        now: Unix seconds.
        skipped: What could not be read of it.
    """

    standing: Standing
    step: int | None
    now: float
    skipped: tuple[Skipped, ...] = ()

    def of(self, alert: Alert) -> list[Answer]:
        """What there is to say of an alert."""
        return self.standing.of(alert, self.step, self.now)

    def words(self, alert: Alert) -> str:
        """The same in words, the silence where there are two; empty where there is nothing."""
        answers = self.of(alert)
        return answers[-1].words if answers else ""

    @property
    def fingerprint(self) -> str:
        """What differs where a page has to say something else."""
        silent = sorted(self.standing.silent(self.step, self.now))
        text = repr((self.standing, silent))
        return f"{zlib.crc32(text.encode(errors='replace')):08x}"


def said_of(run: Path, step: int | None = None) -> Said:
    """What people have said of a run.

    Args:
        run: The run directory.
        step: Its newest step, where that is known.
    """
    stamp = stamp_of(run)
    if stamp is None:
        return Said(Standing(), step, time.time())
    try:
        standing, skipped = _read(run, stamp)
    except OSError as error:
        why = Skipped(run / "acks.jsonl", f"it cannot be read: {error.strerror}")
        return Said(Standing(), step, time.time(), (why,))
    if step is None and any(answer.until_step is not None for answer in standing.silenced.values()):
        step = newest_step(run)
    return Said(standing, step, time.time(), skipped)


@lru_cache(maxsize=256)
def _read(run: Path, stamp: Stamp) -> tuple[Standing, tuple[Skipped, ...]]:
    answers, skipped = read_answers(run)
    return standing_of(answers), tuple(skipped)


def register(app: dash.Dash, roots: Roots) -> None:
    """The route that takes answers."""

    @app.server.route("/run/<key>/answer", methods=["POST"])  # type: ignore[untyped-decorator]
    def answer(key: str) -> Any:
        if is_same_origin() is not True:  # here a browser has to have said so
            return _said(403, "only the dashboard's own pages may answer an alert; there is also `rlwatch alerts ack`")
        if (request.content_length or 0) > LONGEST_BODY:
            return _said(413, "that is too much for an answer")
        run = roots.find(key)
        if run is None:
            return _said(404, "there is no such run here")
        given = request.get_json(silent=True)
        try:
            return _said(200, take(run, given if isinstance(given, Mapping) else {}))
        except (ValueError, TypeError) as error:
            return _said(400, str(error))
        except OSError as error:
            return _said(507, f"it could not be written down: {error.strerror or error}")


def take(run: Path, given: Mapping[str, Any]) -> str:
    """Write down what a page sends; what was said, in words.

    Args:
        run: The run directory.
        given: `rule`, `since`, `kind` (acknowledge or silence), and of the rest what is wanted: `until_step`, `hours`,
            `who`, `undo`.

    Raises:
        ValueError, TypeError: It makes no sense; the message says why.
        OSError: It cannot be written.
    """
    rule, since, who, undo = given.get("rule"), given.get("since"), given.get("who", ""), given.get("undo", False)
    step, hours = given.get("until_step"), given.get("hours")
    if not isinstance(rule, str) or not isinstance(who, str) or not isinstance(undo, bool):
        raise TypeError("an answer is about a rule, by somebody or nobody")
    if not _is_whole(since) or not (step is None or _is_whole(step)):
        raise TypeError("a step is a whole number")
    if not (hours is None or (isinstance(hours, (int, float)) and not isinstance(hours, bool))):
        raise TypeError("hours are a number")
    if given.get("kind") == "acknowledge":
        return answering.acknowledge(run, rule, since, who=who, undo=undo).words
    if given.get("kind") != "silence":
        raise ValueError("one can acknowledge or silence")
    if rule not in answering.rules_of(run):
        raise ValueError("the run has no alert of that rule")
    return answering.silence(run, rule, until_step=step, hours=hours, since=since, who=who, undo=undo).words


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _said(status: int, words: str) -> Response:
    answer = jsonify({"said": words})
    answer.status_code = status
    return answer
