/* What the browser does with the server's news of the runs: changed rows go to the grid, and the cursor moves on. Also
   how high the grid is, and whether its rows are lines or cards. */
(function () {
  "use strict";
  const runs = (window.rlwatchRuns = window.rlwatchRuns || {});
  const NARROW = matchMedia("(max-width: 1099px)");
  const LINE = 54; // pixels, as in grid.py
  const ROOM = 12; // pixels under the grid
  const SOON = 200; // milliseconds, while there are curves that the server has yet to read
  const known = new WeakSet(); // grids that have been set up
  let grid = null; // the one that is shown

  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

  /* Gives the grid what is new, and answers with the new cursor. News that does not begin at the page's cursor was asked
     for twice: it is left alone. */
  async function take(news, cursor) {
    const unchanged = window.dash_clientside.no_update;
    if (!news || !same(news.from, cursor)) return unchanged;
    const api = await window.dash_ag_grid.getApiAsync("runs-grid");
    if (api.isDestroyed()) return unchanged;
    grid = api;
    const there = (row) => api.getRowNode(row.id) !== undefined;
    const ids = news.ids && new Set(news.ids);
    const remove = [];
    if (ids) api.forEachNode((node) => ids.has(node.id) || remove.push(node.data));
    const update = news.rows.filter(there);
    const add = news.rows.filter((row) => !there(row));
    if (add.length || update.length || remove.length) api.applyTransaction({ add, update, remove });
    if (!known.has(api)) {
      known.add(api);
      begin(api);
    } else if (add.length || update.length || remove.length) {
      const rowNodes = update.map((row) => api.getRowNode(row.id)).filter(Boolean);
      api.refreshCells({ rowNodes, force: true });
      runs.refresh();
    }
    runs.keepChosen();
    if (news.to.pending) setTimeout(() => window.dash_clientside.set_props("runs-again", { data: Date.now() }), SOON);
    return news.to;
  }

  function begin(api) {
    runs.begin(api);
    fit();
    api.addEventListener("modelUpdated", size);
    const root = document.querySelector("#runs-grid [role=grid], #runs-grid [role=treegrid]");
    if (root) root.setAttribute("aria-label", "Runs");
  }

  /* As high as its rows, where the window has the room; the rest is scrolled inside of it. */
  function size() {
    const box = document.getElementById("runs-grid");
    if (!box || !grid || grid.isDestroyed()) return;
    let rows = 0;
    grid.forEachNodeAfterFilter((node) => { rows += node.rowHeight; });
    const head = NARROW.matches ? 0 : 37;
    const top = box.getBoundingClientRect().top + scrollY;
    const room = Math.max(innerHeight * (NARROW.matches ? 0.8 : 0.5), innerHeight - top - ROOM);
    const bar = box.querySelector(".ag-body-horizontal-scroll:not(.ag-scrollbar-invisible)")?.offsetHeight || 0;
    const wanted = `${Math.min(rows + head + 2 + bar, room)}px`;
    if (box.style.height !== wanted) box.style.height = wanted;
  }

  /* A card's head, its words and its facts, three beside each other on a phone. */
  const cardHeight = ({ data }) => (innerWidth < 700 ? (data.kind === "group" ? 302 : 278) : 172);

  /* Lines where the page is wide, cards where it is narrow. */
  function fit() {
    if (!grid || grid.isDestroyed()) return;
    const isNarrow = NARROW.matches;
    const others = grid.getColumns().map((column) => column.getColId()).filter((id) => id !== "card");
    grid.setGridOption("getRowHeight", isNarrow ? cardHeight : () => LINE);
    grid.setGridOption("headerHeight", isNarrow ? 0 : 36);
    grid.setColumnsVisible(["card"], isNarrow);
    grid.setColumnsVisible(others, !isNarrow);
    grid.resetRowHeights();
    size();
  }

  /* A cell with a link, a button or a box in it does at Enter and Space what that does. */
  function press(event) {
    const cell = event.target;
    if (!["Enter", " "].includes(event.key) || cell.getAttribute("role") !== "gridcell") return;
    const inner = cell.querySelector("a, button, input");
    if (!inner || !cell.closest("#runs-grid")) return;
    event.preventDefault();
    event.stopPropagation();
    inner.click();
  }

  NARROW.addEventListener("change", fit);
  addEventListener("resize", () => { size(); if (NARROW.matches && grid && !grid.isDestroyed()) grid.resetRowHeights(); });
  document.addEventListener("keydown", press, true);
  window.dash_clientside = Object.assign({}, window.dash_clientside);
  window.dash_clientside.rlwatchRuns = Object.assign({}, window.dash_clientside.rlwatchRuns, { take });
})();
