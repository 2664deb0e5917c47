"""A comparison as JSON for other programs: the schema of `rlwatch compare --format json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rlwatch.report.as_json import plain_json as plain
from rlwatch.report.compare import Comparison, Group
from rlwatch.report.compare_sentences import sentences

SCHEMA = 1


def comparison_json(comparison: Comparison, unreadable: Mapping[str, str]) -> dict[str, Any]:
    """The whole comparison; what is not known is null, and inf is the string "Infinity".

        {"schema": 1, "by": [str], "level": float|null, "unit": "tokens"|"steps", "sentences": [str], "notes": [str],
         "groups": [{"group": str, "settings": {name: value}, "final_reward": INTERVAL|null,
            "best_reward": INTERVAL|null, "wasted": INTERVAL|null, "collapsed": int, "watched": int,
            "median_collapse_step": float|null,
            "survival": [{"step": float, "share": float, "at_risk": int, "events": int}],
            "reached": int|null, "cost": float|null, "verdicts": {verdict: int},
            "runs": [{"run": str, "path": str, "seed": int|null, "verdict": str, "first_step": int|null,
               "last_step": int|null, "final_reward": float|null, "best_reward": float|null, "collapse_step": int|null,
               "collapse_known": bool, "wasted": float|null}]}],
         "pairs": [{"first": str, "second": str, "seeds": [int, int], "difference": INTERVAL,
            "iqm_difference": INTERVAL, "effect": float|"Infinity"|null, "p": float, "p_adjusted": float,
            "shown": bool, "possible": bool,
            "seeds_needed": int|null, "alpha": float, "collapse": {"observed": int, "expected": float,
               "chi_square": float, "p": float, "p_permutation": float, "p_adjusted": float}|null}],
         "unreadable": [{"path": str, "why": str}]}
        INTERVAL: {"value": float, "low": float|null, "high": float|null}

    What each number is: [`Group`][rlwatch.report.compare.Group], [`Pair`][rlwatch.report.compare.Pair].

    Args:
        comparison: What was found.
        unreadable: Path → why it could not be read.
    """
    pairs = []
    for pair in comparison.pairs:
        data = asdict(pair)
        adjusted = data.pop("collapse_p_adjusted")
        data["iqm_difference"] = data.pop("iqm")
        data["seeds_needed"] = data.pop("needed")
        data["collapse"] = None if pair.collapse is None else {**asdict(pair.collapse), "p_adjusted": adjusted}
        pairs.append(data)
    report: dict[str, Any] = plain(
        {
            "schema": SCHEMA,
            "by": comparison.by,
            "level": comparison.level,
            "unit": comparison.unit,
            "sentences": sentences(comparison),
            "notes": comparison.notes,
            "groups": [_group(group) for group in comparison.groups],
            "pairs": pairs,
            "unreadable": [{"path": path, "why": why} for path, why in unreadable.items()],
        }
    )
    return report


def _group(group: Group) -> dict[str, Any]:
    return {
        "group": group.name,
        "settings": group.settings,
        "final_reward": None if group.final is None else asdict(group.final),
        "best_reward": None if group.best is None else asdict(group.best),
        "wasted": None if group.wasted is None else asdict(group.wasted),
        "collapsed": group.collapsed,
        "watched": group.watched,
        "median_collapse_step": group.median_collapse,
        "survival": [
            {"step": p.time, "share": p.share, "at_risk": p.at_risk, "events": p.events} for p in group.survival
        ],
        "reached": group.reached,
        "cost": group.cost,
        "verdicts": group.verdicts,
        "runs": [{k: v for k, v in vars(o).items() if k != "curve"} for o in group.outcomes],
    }
