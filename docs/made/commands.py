"""The command line, from typer's own tree of commands."""

from __future__ import annotations

import inspect
from typing import Any

import typer.main

from made.metrics import cell
from rlwatch.cli import app


def page() -> str:
    """Every command with its arguments and options."""
    return "\n\n".join(_section(name, command) for name, command in commands().items())


def commands() -> dict[str, Any]:
    """Every command that does something, by what is typed: `alerts test` → the command."""
    found: dict[str, Any] = {}

    def walk(prefix: str, command: Any) -> None:
        inner = getattr(command, "commands", None)
        if inner is None:
            found[prefix] = command
        for name, child in (inner or {}).items():
            walk(f"{prefix} {name}".strip(), child)

    walk("", typer.main.get_command(app))
    return found


def _section(name: str, command: Any) -> str:
    params = [param for param in command.params if not getattr(param, "hidden", False)]
    arguments = [param for param in params if param.param_type_name == "argument"]
    options = [param for param in params if param.param_type_name == "option"]
    usage = " ".join(["rlwatch", name, *map(_shape, arguments), *(["[OPTIONS]"] if options else [])])
    parts = [f"### rlwatch {name}", inspect.cleandoc(command.help or ""), f"```text\n{usage}\n```"]
    rows = [f"| `{_shape(p)}` | {cell(p.help or '')} | {_default(p)} |" for p in arguments]
    rows += [f"| {_names(p)} | {cell(p.help or '')} | {_default(p)} |" for p in options]
    if rows:
        parts.append("\n".join(["| | | default |", "|---|---|---|", *rows]))
    return "\n\n".join(parts)


def _shape(param: Any) -> str:
    """An argument as it stands in the line of usage: PATH, [RUNS], PATH..."""
    name = (param.metavar or param.name or "").upper().strip("[]").removesuffix("...")
    name += "..." if param.nargs == -1 else ""
    return name if param.required else f"[{name}]"


def _names(param: Any) -> str:
    """An option's spellings, with what it takes: `--output FILE`, `-o`."""
    takes = "" if getattr(param, "is_flag", False) else f" {(param.metavar or param.name).upper()}"
    first, *others = sorted(param.opts, key=len, reverse=True)
    return ", ".join([f"`{first}{takes}`", *(f"`{other}`" for other in others)])


def _default(param: Any) -> str:
    value = param.default
    if callable(value) or value is None or value in ("", [], ()) or getattr(param, "is_flag", False):
        return "required" if param.required else ""
    return "required" if param.required else f"`{' '.join(map(str, value)) if isinstance(value, list) else value}`"
