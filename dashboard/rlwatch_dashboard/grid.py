"""The grid of runs as a component: its columns, and its look out of the page's own colours.

What stands in a cell is drawn by assets/runs_cells.js; which rows are seen and in which order is decided by
assets/runs_view.js; the rows come by assets/runs.js.
"""

from __future__ import annotations

from typing import Any

import dash_ag_grid as dag

from rlwatch.runs.metrics import describe
from rlwatch_dashboard.pages.runs_rows import NUMBERS

ROW_HEIGHT = 54

# column → its heading, its width, and more of it
COLUMNS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "pick": ("Compare", 44, {"sortable": False, "headerClass": "no-words", "resizable": False}),
    "name": ("Run", 190, {"flex": 2, "minWidth": 150}),
    "state": ("State", 98, {}),
    "how": ("How it is", 240, {"flex": 3, "minWidth": 200}),
    "reward": ("Reward", 134, {}),
    "entropy": ("Entropy", 134, {}),
    "step": ("Step", 84, {}),
    "zero": ("Zero-variance", 112, {}),
    "alerts": ("Alerts", 92, {}),
    "started": ("Started", 84, {}),
    "seen": ("Last step", 92, {}),
    "seed": ("Seed", 70, {}),
    "root": ("Folder", 130, {}),
}

THEME = """themeQuartz.withParams({
  backgroundColor: 'var(--panel)', foregroundColor: 'var(--ink)', textColor: 'var(--ink)',
  borderColor: 'var(--line)', chromeBackgroundColor: 'var(--panel)', headerTextColor: 'var(--soft)',
  accentColor: 'var(--info)', rowHoverColor: 'color-mix(in srgb, var(--info) 6%, var(--panel))',
  browserColorScheme: 'inherit', fontFamily: 'inherit', headerFontFamily: 'inherit', fontSize: 14,
  headerFontSize: 12, headerFontWeight: 500, headerHeight: 36, wrapperBorderRadius: 10, cellHorizontalPadding: 10,
  wrapperBorder: true, columnBorder: false, headerColumnResizeHandleColor: 'transparent'
})"""
"""The page's variables, so that light and dark need nothing of their own here."""


def runs_grid(several_roots: bool) -> Any:
    """The grid, still without rows."""
    definitions = [_column(name, *of) for name, of in COLUMNS.items() if name != "root" or several_roots]
    card = {
        "colId": "card",
        "headerName": "Runs",
        "cellRenderer": "RunCard",
        "flex": 1,
        "hide": True,
        "sortable": False,
    }
    return dag.AgGrid(
        id="runs-grid",
        columnDefs=[*definitions, card],
        rowData=[],
        getRowId="params.data.id",
        defaultColDef={"sortable": True, "resizable": True, "suppressMovable": True, "filter": False},
        rowClassRules={"of-group": "params.data.group"},
        dashGridOptions={
            "theme": {"function": THEME},
            "rowHeight": ROW_HEIGHT,
            "animateRows": False,
            "suppressCellFocus": False,
            "suppressNoRowsOverlay": True,
            "enableCellTextSelection": True,
            "suppressScrollOnNewData": True,
            "tooltipShowDelay": 300,
        },
        style={"height": None, "width": "100%"},
        className="",
    )


def _column(name: str, heading: str, width: int, more: dict[str, Any]) -> dict[str, Any]:
    metric = NUMBERS.get(name)
    return {
        "colId": name,
        "headerName": heading,
        "width": width,
        "headerTooltip": f"{metric}: {describe(metric).meaning}" if metric else None,
        "valueGetter": {"function": "runsValue(params)"},
        "comparator": {"function": "runsCompare"},
        "sortingOrder": ["asc", "desc", None],
        "cellRenderer": "RunCell",
        "cellClass": f"cell-{name}",
        **more,
    }
