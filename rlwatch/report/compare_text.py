"""A comparison for a person at a terminal: the groups, what can be said of them, the runs, and what to know first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.console import Group as Parts
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rlwatch.report.compare import Comparison, Group
from rlwatch.report.compare_rows import Rows, group_rows, legend, pair_rows, run_rows
from rlwatch.report.compare_sentences import AT_ONCE, sentences
from rlwatch.report.text import VERDICT_STYLES

GAP = 2
LONGEST = 40
"""Runs from which on the table of runs is left to the other formats."""


def comparison_report(comparison: Comparison) -> RenderableType:
    """The whole comparison; a dash stands where a log does not tell."""
    parts: list[RenderableType] = [_Table(group_rows(comparison))]
    parts += [Text("\nWhat these seeds can show", style="bold"), *(_line(said) for said in sentences(comparison))]
    if len(comparison.pairs) > AT_ONCE:
        parts += [Text(""), _Table(pair_rows(comparison))]
    if len(comparison.groups) < sum(len(group.outcomes) for group in comparison.groups) <= LONGEST:
        parts += [Text("\nThe runs", style="bold"), _runs(comparison.groups)]
    parts += [Text("\nHow to read it", style="bold"), *(_line(note) for note in legend(comparison))]
    return Parts(*parts)


@dataclass(frozen=True)
class _Table:
    """A table that is folded between words where the terminal is narrow, and inside of them only as a last resort.

    Rich by itself narrows the widest column first, in the middle of a name.
    """

    rows: Rows
    right: Sequence[str] = ()
    styles: Mapping[str, str] = field(default_factory=dict)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        cells = [[title, *(row[place] for row in self.rows.rows)] for place, title in enumerate(self.rows.titles)]
        table = Table(box=None, padding=(0, GAP, 0, 0), header_style="dim")
        for title, width in zip(self.rows.titles, _widths(cells, options.max_width), strict=True):
            table.add_column(title, overflow="fold", width=width, justify="right" if title in self.right else "left")
        for row in self.rows.rows:
            table.add_row(*(Text(cell, style=self.styles.get(cell, "")) for cell in row))
        yield table


def _widths(columns: Sequence[Sequence[str]], room: int) -> list[int]:
    """A width for each column of cells, so that they fit with their gaps; no column without a place."""
    wanted = [max(map(cell_len, cells)) for cells in columns]
    widths = [max(cell_len(word) for cell in cells for word in cell.split() or [""]) for cells in columns]
    left = room - GAP * len(columns) - sum(widths)
    for place, want in enumerate(wanted):
        more = max(0, min(want - widths[place], left))
        widths[place] += more
        left -= more
    while left < 0 and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
        left += 1
    return widths


def _runs(groups: Sequence[Group]) -> RenderableType:
    titles = run_rows([]).titles
    rows: list[Sequence[str]] = []
    for group in groups:
        rows.append([group.name, *[""] * (len(titles) - 1)])
        rows += [[f"· {name}", *cells] for name, *cells in run_rows(group.outcomes).rows]
    return _Table(Rows(titles, rows), [t for t in titles if t not in ("run", "verdict")], VERDICT_STYLES)


def _line(text: str) -> RenderableType:
    return Padding(Text(text), (0, 0, 0, 2))
