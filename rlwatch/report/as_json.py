"""What was found, as JSON for other programs: the schema of `rlwatch analyze --format json`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rlwatch.report.analysis import Analysis
from rlwatch.report.remarks import remarks

SCHEMA = 1


def report(analyses: Sequence[Analysis], unreadable: Mapping[str, str]) -> dict[str, Any]:
    """The whole report; NaN and inf are the strings "NaN", "Infinity" and "-Infinity", for JSON has none.

    Args:
        analyses: One a run.
        unreadable: Path → why it could not be read.
    """
    return {
        "schema": SCHEMA,
        "runs": [_run(analysis) for analysis in analyses],
        "unreadable": [{"path": path, "why": why} for path, why in unreadable.items()],
    }


def _run(analysis: Analysis) -> dict[str, Any]:
    run = analysis.run
    return {
        "run": run.name,
        "path": run.path,
        "format": run.format,
        "framework": run.framework,
        "records": len(run.records),
        "first_step": run.records[0].step if run.records else None,
        "last_step": run.records[-1].step if run.records else None,
        "verdict": analysis.verdict,
        "alerts": [plain_json(alert.to_dict()) for alert in analysis.alerts],
        "timeline": [
            {"step": c.step, "rule": c.rule, "severity": c.severity.value, "state": c.state.value}
            for c in analysis.changes
        ],
        "unchecked": dict(analysis.unchecked),
        "waste": None if analysis.waste is None else plain_json(asdict(analysis.waste)),
        "metrics": run.names,
        "lints": [lint.to_dict() for lint in remarks(run, analysis.settings.silenced_lints)],
        "notes": list(run.notes),
        **_of_settings(analysis),
    }


def _of_settings(analysis: Analysis) -> dict[str, Any]:
    """What was set, and which alerts are not the same by the defaults; nothing where nothing was set."""
    if analysis.by_default is None:
        return {}
    changed = [
        {
            "rule": each.rule,
            "with": None if each.now is None else plain_json(each.now.to_dict()),
            "by_default": None if each.by_default is None else plain_json(each.by_default.to_dict()),
        }
        for each in analysis.changed
    ]
    return {"settings": plain_json(analysis.settings.to_dict()), "changed": changed}


def plain_json(value: Any) -> Any:
    """A value in JSON's types; NaN and inf as strings."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(item) for item in value]
    return value
