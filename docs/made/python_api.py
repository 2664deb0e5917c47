"""What Python code may call, from the docstrings: `rlwatch.__all__`, `rlwatch.rules.__all__`, and what they return.

By `inspect` and not by mkdocstrings: that would be four more packages for a page of a dozen objects.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import rlwatch
import rlwatch.rules
from made.metrics import cell
from rlwatch.audit.result import Audit
from rlwatch.report.analysis import Analysis
from rlwatch.runs.records import Alert, Run

RETURNED = {"Run": Run, "Analysis": Analysis, "Alert": Alert, "Audit": Audit}
"""What the functions give back."""

SECTIONS = ("Args", "Attributes", "Returns", "Raises")
_HEADING = re.compile(rf"^({'|'.join(SECTIONS)}):$", re.MULTILINE)
_LINK = re.compile(r"\[(`[^`]+`)\]\[([\w.]+)\]")


def page() -> str:
    """Every public object: how it is called, what it says, its arguments and methods."""
    parts = ["## rlwatch"]
    parts += [_section(f"rlwatch.{name}", value) for name, value in _public()]
    parts.append("## What they return")
    parts += [_section(name, value) for name, value in RETURNED.items()]
    parts.append(f"## rlwatch.rules\n\n{prose(inspect.cleandoc(rlwatch.rules.__doc__ or ''))}")
    parts += [_section(f"rlwatch.rules.{name}", getattr(rlwatch.rules, name)) for name in rlwatch.rules.__all__]
    return "\n\n".join(parts)


def _public() -> Iterator[tuple[str, Any]]:
    for name in rlwatch.__all__:
        if name != "__version__":
            yield name, getattr(rlwatch, name)


def documented() -> dict[str, str]:
    """Each object's last name → the anchor of its heading on the page."""
    names = [f"rlwatch.{name}" for name in rlwatch.__all__ if name != "__version__"]
    names += [*RETURNED, *(f"rlwatch.rules.{name}" for name in rlwatch.rules.__all__)]
    return {name.rpartition(".")[2]: name.lower().replace(".", "") for name in reversed(names)}


def _section(name: str, value: Any) -> str:
    short = name.rpartition(".")[2]
    parts = [f"### {name}"]
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return "\n\n".join([*parts, f"`{value!r}`"])
    if not _is_enum(value):
        parts.append(f"```python\n{_signature(short, value)}\n```")
    parts.append(docstring(inspect.getdoc(value) or ""))
    if inspect.isclass(value) and not _is_enum(value):
        parts += [_method(short, method) for method in _methods(value)]
    return "\n\n".join(part for part in parts if part)


def _is_enum(value: Any) -> bool:
    return inspect.isclass(value) and hasattr(value, "__members__")


def _methods(cls: type) -> Iterator[Any]:
    """Public methods and properties of the class itself; what a trainer calls is not for people."""
    for name, value in vars(cls).items():
        if name.startswith(("_", "on_")):
            continue
        if inspect.isfunction(value) or isinstance(value, (property, classmethod)):
            yield value


def _method(owner: str, method: Any) -> str:
    if isinstance(method, property):
        return f"#### {owner}.{method.fget.__name__}\n\n{docstring(inspect.getdoc(method) or '')}"
    function = getattr(method, "__func__", method)
    text = docstring(inspect.getdoc(function) or "")
    call = _signature(function.__name__, function, bound=True)
    return f"#### {owner}.{function.__name__}\n\n```python\n{call}\n```\n\n{text}"


def _signature(name: str, value: Any, *, bound: bool = False) -> str:
    """The call as code, an argument a line where it would be long."""
    try:
        given = inspect.signature(value)
    except ValueError:
        return name
    params = list(given.parameters.values())[1 if bound else 0 :]
    texts, star = [], False
    for param in params:
        if param.kind is param.VAR_POSITIONAL:
            star = True
        elif param.kind is param.KEYWORD_ONLY and not star:
            texts.append("*")
            star = True
        texts.append(_argument(param))
    back = given.return_annotation
    returns = "" if back is given.empty or inspect.isclass(value) else f" -> {str(back).strip(chr(39))}"
    line = f"{name}({', '.join(texts)}){returns}"
    if len(line) <= 100:
        return line
    inside = "".join(f"    {text},\n" for text in texts)
    return f"{name}(\n{inside}){returns}"


def _argument(param: inspect.Parameter) -> str:
    """One argument as it is written in a signature; annotations are texts already."""
    stars = {param.VAR_POSITIONAL: "*", param.VAR_KEYWORD: "**"}.get(param.kind, "")
    kind = "" if param.annotation is param.empty else f": {param.annotation}"
    default = "" if param.default is param.empty else f" = {param.default!r}" if kind else f"={param.default!r}"
    return f"{stars}{param.name}{kind}{default}"


def docstring(text: str) -> str:
    """A Google docstring as markdown: its prose, then a table for each of its sections."""
    pieces = _HEADING.split(text)
    parts = [prose(pieces[0])]
    for heading, body in zip(pieces[1::2], pieces[2::2], strict=True):
        body = inspect.cleandoc("\n" + body)
        if heading == "Returns":
            parts.append(f"**Returns**: {prose(body)}")
            continue
        rows = "\n".join(f"| `{name}` | {cell(prose(said))} |" for name, said in entries(body))
        parts.append(f"| {heading} | |\n|---|---|\n{rows}")
    return "\n\n".join(part for part in parts if part.strip())


def entries(body: str) -> list[tuple[str, str]]:
    """The `name: text` of a section; what is indented goes on with the one before.

    >>> entries("a: first\\n    goes on\\nb: second")
    [('a', 'first goes on'), ('b', 'second')]
    """
    found: list[tuple[str, str]] = []
    for line in body.splitlines():
        name, colon, said = line.partition(": ")
        if colon and not line.startswith(" "):
            found.append((name, said))
        elif line.strip() and found:
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
    return found


def prose(text: str) -> str:
    """A docstring's text: its references become links where the page has their target, indented code a fence."""
    known = documented()

    def link(found: re.Match[str]) -> str:
        target = found[2].rpartition(".")[2]
        return f"[{found[1]}](api.md#{known[target]})" if target in known else found[1]

    lines, code = [], False
    for line in _LINK.sub(link, text.strip()).splitlines():
        if line.startswith("    ") and not code and (not lines or not lines[-1].strip()):
            lines.append("```python")
            code = True
        elif code and line.strip() and not line.startswith("    "):
            while not lines[-1].strip():
                lines.pop()
            lines += ["```", ""]
            code = False
        lines.append(line[4:] if code else line)
    return "\n".join([*lines, "```"] if code else lines)
