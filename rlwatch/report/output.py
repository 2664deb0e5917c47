"""Where a report goes: to a file, or else to standard output or the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console, RenderableType

FORMATS = ("text", "json", "html")
"""What reports are written as."""

WIDTH = 120
"""Letters of a line of a text report in a file."""


def draw(parts: Iterable[RenderableType], output: Path | None, console: Console) -> None:
    """Print what rich draws, one part after the other.

    Raises:
        OSError: The file cannot be written.
    """
    if output is not None:
        with output.open("w", encoding="utf-8") as file:
            draw(parts, None, Console(file=file, width=WIDTH))
        return
    for part in parts:
        console.print(part)


def write(text: str, output: Path | None) -> None:
    """Write a text as it is.

    Raises:
        OSError: The file cannot be written.
    """
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text, encoding="utf-8")
