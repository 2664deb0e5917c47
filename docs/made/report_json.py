"""The JSON of `analyze --format json`: its schema, from the classes that it is made of, and tables of the same."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from enum import Enum
from typing import Any

from made.metrics import cell
from made.python_api import entries, prose
from rlwatch.audit.lints import Lint
from rlwatch.report.analysis import VERDICTS
from rlwatch.report.as_json import SCHEMA
from rlwatch.report.waste import Waste
from rlwatch.runs.records import Advice, Alert, AlertState, Cause, Forecast, Severity

CLASSES = (Alert, Cause, Advice, Forecast, Waste, Lint)
WORDS = {
    "Cause": {"text": "A likely reason, for people.", "evidence": "The numbers that point to it."},
    "Advice": {"text": "Something to try.", "source": "Where that is known from."},
}
"""For classes whose docstring has no list of their fields."""

TEXT: dict[str, Any] = {"type": "string"}
COUNT: dict[str, Any] = {"type": "integer"}
NUMBER: dict[str, Any] = {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}
NOTHING: dict[str, Any] = {"type": "null"}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _or_null(one: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [*one.get("anyOf", [one]), NOTHING]}


TOP = {
    "schema": ({"const": SCHEMA}, "Grows when a key goes away or changes its meaning; new keys do not change it."),
    "runs": (_list(_ref("Run")), "One a run that was found in the paths, in their order."),
    "unreadable": (_list(_ref("Unreadable")), "What could not be read; with any, the exit code is 2."),
}
RUN = {
    "run": (TEXT, "What it is called."),
    "path": (TEXT, "The file or directory that it was read from."),
    "format": (TEXT, "Which reader read it, such as `trl-console`."),
    "framework": (_or_null(TEXT), "Who wrote it: `trl`, `verl`, ...; null where nobody can tell."),
    "records": (COUNT, "Rows that were judged."),
    "first_step": (_or_null(COUNT), "Of the first row; null without rows."),
    "last_step": (_or_null(COUNT), "Of the last row."),
    "verdict": ({"enum": list(VERDICTS)}, "See [what it says](analyze.md#what-it-says)."),
    "alerts": (_list(_ref("Alert")), "Each alert once: open ones first, the worst first, then the earliest."),
    "timeline": (_list(_ref("Change")), "Every change of an alert's state, in the order of steps."),
    "unchecked": (
        {"type": "object", "additionalProperties": TEXT},
        "Rule → why this log cannot show it, and which setting would log it.",
    ),
    "waste": (_or_null(_ref("Waste")), "What went into groups that taught nothing; null where the log cannot tell."),
    "metrics": (_list(TEXT), "Names that are there; `raw/...` for what is none of [ours](metrics.md)."),
    "lints": (_list(_ref("Lint")), "What is unwise about the configuration, where the log tells it."),
    "notes": (_list(TEXT), "What had to be inferred, passed over or left out."),
    "settings": ({"type": "object"}, "What was set; only where settings changed how the run is judged."),
    "changed": (_list(_ref("Changed")), "The alerts that the defaults tell otherwise; only beside `settings`."),
}
CHANGE = {
    "step": (COUNT, "When it was told."),
    "rule": (TEXT, "Of which rule."),
    "severity": ({"enum": [each.value for each in Severity]}, "As bad as it was then."),
    "state": ({"enum": [each.value for each in AlertState]}, "What it came to be."),
}
CHANGED = {
    "rule": (TEXT, "The rule's name."),
    "with": (_or_null(_ref("Alert")), "The alert by the settings; null where there is none."),
    "by_default": (_or_null(_ref("Alert")), "The alert by the defaults; null where there is none."),
}
UNREADABLE = {"path": (TEXT, "As it was given or found."), "why": (TEXT, "Why, in words.")}

OPTIONAL = {"settings", "changed"}
"""Keys of a run that are not always there."""


def schema() -> dict[str, Any]:
    """A JSON Schema of the whole report."""
    shapes = {"Run": RUN, "Change": CHANGE, "Changed": CHANGED, "Unreadable": UNREADABLE}
    shapes |= {cls.__name__: _of_class(cls) for cls in CLASSES}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "rlwatch analyze --format json",
        **_object(TOP),
        "$defs": {name: _object(shape) for name, shape in shapes.items()},
    }


def page() -> str:
    """The tables, object by object, and the schema itself."""
    tables = {"The report": TOP, "A run": RUN, "A change": CHANGE}
    tables |= {f"{cls.__name__}": _of_class(cls) for cls in CLASSES}
    tables |= {"Changed": CHANGED, "Unreadable": UNREADABLE}
    parts = [f"### {name}\n\n{_table(shape)}" for name, shape in tables.items()]
    as_text = json.dumps(schema(), indent=1, ensure_ascii=False)
    return "\n\n".join([*parts, "### As JSON Schema", f"```json\n{as_text}\n```"])


def _of_class(cls: type[Any]) -> dict[str, tuple[dict[str, Any], str]]:
    """A class's fields: the type by its annotation, the words by its docstring. KeyError where one has none."""
    args = re.split(r"^(?:Args|Attributes):$", inspect.getdoc(cls) or "", flags=re.MULTILINE)
    said = WORDS.get(cls.__name__) or dict(entries(inspect.cleandoc("\n" + args[1])))
    return {field.name: (_of_type(str(field.type)), prose(said[field.name])) for field in dataclasses.fields(cls)}


def _of_type(annotation: str) -> dict[str, Any]:
    """A dataclass's annotation as a schema.

    >>> _of_type("tuple[Cause, ...]")
    {'type': 'array', 'items': {'$ref': '#/$defs/Cause'}}
    """
    simple = {"str": TEXT, "int": COUNT, "float": NUMBER, "bool": {"type": "boolean"}}
    enums: dict[str, type[Enum]] = {"Severity": Severity, "AlertState": AlertState}
    if annotation.endswith(" | None"):
        return _or_null(_of_type(annotation.removesuffix(" | None")))
    if annotation in simple:
        return simple[annotation]
    if annotation in enums:
        return {"enum": [member.value for member in enums[annotation]]}
    if annotation == "Metrics":
        return {"type": "object", "additionalProperties": _or_null(NUMBER)}
    if found := re.fullmatch(r"tuple\[(\w+), \.\.\.\]", annotation):
        return _list(_of_type(found[1]))
    if annotation in {cls.__name__ for cls in CLASSES}:
        return _ref(annotation)
    raise KeyError(f"docs/made/report_json.py knows no type {annotation!r}")


def _object(shape: dict[str, tuple[dict[str, Any], str]]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {key: kind for key, (kind, _) in shape.items()},
        "required": [key for key in shape if key not in OPTIONAL],
        "additionalProperties": False,
    }


def _table(shape: dict[str, tuple[dict[str, Any], str]]) -> str:
    rows = [f"| `{key}` | {_name(kind)} | {cell(said)} |" for key, (kind, said) in shape.items()]
    return "\n".join(["| key | type | |", "|---|---|---|", *rows])


def _name(kind: dict[str, Any]) -> str:
    """A type in words: `list of Alert`, `number or null`."""
    if kind is NUMBER:
        return "number"
    if "anyOf" in kind:
        return " or ".join(dict.fromkeys("number" if "enum" in one else _name(one) for one in kind["anyOf"]))
    if "enum" in kind:
        return ", ".join(f"`{value}`" for value in kind["enum"])
    if "const" in kind:
        return f"`{kind['const']}`"
    if "$ref" in kind:
        return str(kind["$ref"]).rpartition("/")[2]
    if kind["type"] == "array":
        return f"list of {_name(kind['items'])}"
    if kind["type"] == "object" and "additionalProperties" in kind:
        return f"object of {_name(kind['additionalProperties'])}"
    return str(kind["type"])
