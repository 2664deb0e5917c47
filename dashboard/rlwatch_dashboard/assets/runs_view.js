/* What of the runs is seen, and in which order: the search, the filters, the order and the open groups, all of them kept
   in the address, so that a link, a reload and the way back show the same. */
(function () {
  "use strict";
  const runs = (window.rlwatchRuns = window.rlwatchRuns || {});
  const FILTERS = ["state", "verdict", "severity"];
  const RANKS = {
    state: ["live", "stalled", "ended", "empty"],
    how: ["critical", "warning", "info", "unknown", "good"],
    alerts: [null, "info", "warning", "critical"],
  };
  const empty = () => ({ q: "", sort: "", state: "", verdict: "", severity: "", open: [] });
  let view = empty();
  let api = null;
  let typing = false; // the last entry of the history is of a search that is being typed

  const isHere = () => document.getElementById("runs-grid") !== null;
  const field = (name) => document.getElementById(`runs-${name}`);

  function read() {
    const given = new URLSearchParams(location.search);
    const found = empty();
    for (const name of ["q", "sort", ...FILTERS]) found[name] = given.get(name) || "";
    found.open = (given.get("open") || "").split(",").filter(Boolean);
    return found;
  }

  function write() {
    const search = new URLSearchParams();
    for (const name of ["q", "sort", ...FILTERS]) if (view[name]) search.set(name, view[name]);
    if (view.open.length) search.set("open", view.open.join(","));
    return search.size ? `?${search}`.replaceAll("%2C", ",") : "";
  }

  /* Dash's own links do the same: it hears of the new address, and asks for the page that is there. */
  function go(href, instead = false) {
    history[instead ? "replaceState" : "pushState"]({}, "", href);
    window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
  }

  function change(changes, isTyped = false) {
    const before = write();
    view = { ...view, ...changes };
    if (write() === before) return;
    const instead = isTyped && typing;
    typing = isTyped;
    go(location.pathname + write(), instead);
    show();
  }

  // What is seen

  const textOf = (row) => `${row.name} ${row.how} ${row.root} seed ${row.seed ?? ""}`.toLowerCase();

  function matches(row) {
    const words = view.q.toLowerCase().split(/\s+/).filter(Boolean);
    return words.every((word) => textOf(row).includes(word))
      && (!view.state || row.state === view.state)
      && (!view.verdict || row.tone === view.verdict)
      && (!view.severity || (row.severity || "none") === view.severity);
  }

  const membersOf = (row) => row.members.map((id) => api.getRowNode(id)?.data).filter(Boolean);

  /* A group is there while one of its runs is; a run of a group while the group is open. */
  function passes(row) {
    if (row.kind === "group") return membersOf(row).some(matches);
    return matches(row) && (!row.group || view.open.includes(row.group) || !api.getRowNode(row.group));
  }

  // In which order

  const rank = (name, value) => RANKS[name].indexOf(value);
  function value({ data: row, column }) {
    const name = column.getColId();
    if (!row) return null;
    if (name === "pick") return null;
    if (name === "state") return rank("state", row.state);
    if (name === "how") return rank("how", row.tone);
    if (name === "alerts") return rank("alerts", row.severity) * 1e6 + row.alerts;
    if (name === "name" || name === "root") return row[name];
    const found = row[name];
    return found !== null && typeof found === "object" ? found.value : found;
  }

  const newestFirst = (a, b) => (b.data.started || 0) - (a.data.started || 0);

  /* Numbers by their size, names as a person counts; what is missing comes last, rising and falling. */
  const names = new Intl.Collator("en", { numeric: true });
  function compare(a, b, nodeA, nodeB, isDescending) {
    const [noA, noB] = [a, b].map((one) => one === null || one === undefined);
    if (noA !== noB) return noA === isDescending ? -1 : 1;
    const order = noA ? 0 : typeof a === "string" ? names.compare(a, b) : a - b;
    return order || (isDescending ? -1 : 1) * newestFirst(nodeA, nodeB);
  }

  /* The runs of a group stay under it. Where nothing else is wished, the newest comes first. */
  function arrange({ nodes }) {
    if (!view.sort) nodes.sort(newestFirst);
    const under = new Map();
    for (const node of nodes) {
      const group = node.data.group;
      if (group) under.set(group, [...(under.get(group) || []), node]);
    }
    const top = nodes.filter((node) => !node.data.group);
    const inOrder = top.flatMap((node) => [node, ...(under.get(node.data.id) || [])]);
    const placed = new Set(inOrder);
    inOrder.push(...nodes.filter((node) => !placed.has(node)));
    nodes.splice(0, nodes.length, ...inOrder);
  }

  // Showing it

  function sortOf(sort) {
    const [name, falling] = [sort.replace(/^-/, ""), sort.startsWith("-")];
    return api.getColumn(name) && name !== "card" ? { colId: name, sort: falling ? "desc" : "asc" } : null;
  }

  function sorted() {
    const by = api.getColumnState().find((column) => column.sort);
    return by ? (by.sort === "desc" ? "-" : "") + by.colId : "";
  }

  function fill() {
    const search = field("q");
    if (search.value !== view.q) window.dash_clientside.set_props("runs-q", { value: view.q });
    for (const name of [...FILTERS, "sort"]) if (field(name).value !== view[name]) field(name).value = view[name];
    field("clear").hidden = !["q", ...FILTERS].some((name) => view[name]);
  }

  function count() {
    let all = 0;
    let left = 0;
    api.forEachNode(({ data }) => {
      if (data.kind !== "run") return;
      all += 1;
      left += matches(data);
    });
    const runs = `${all} run${all === 1 ? "" : "s"}`;
    const none = all && !left ? "No run is left. " : "";
    const text = left === all ? runs : `${none}${left} of ${runs}`;
    if (field("count").textContent !== text) field("count").textContent = text;
  }

  const redraw = (columns) => api && !api.isDestroyed() && api.refreshCells({ columns, force: true });

  /* Rows came, went or changed: what is seen of them may be another thing. */
  function refresh() {
    api.onFilterChanged();
    api.refreshClientSideRowModel("sort");
    count();
  }

  function show() {
    if (!api || api.isDestroyed() || !isHere()) return;
    fill();
    if (sorted() !== view.sort) {
      const by = sortOf(view.sort);
      api.applyColumnState({ state: by ? [by] : [], defaultState: { sort: null } });
    }
    refresh();
    redraw(["name", "card"]);
  }

  function begin(grid) {
    api = grid;
    api.setGridOption("isExternalFilterPresent", () => true);
    api.setGridOption("doesExternalFilterPass", (node) => passes(node.data));
    api.setGridOption("postSortRows", arrange);
    api.addEventListener("sortChanged", () => change({ sort: sorted() }));
    view = read();
    show();
  }

  /* The address changed by a link or by the way back. */
  function follow() {
    typing = false;
    if (!isHere() || !api) return;
    const before = write();
    view = read();
    if (write() !== before) show();
  }

  const toggle = (group) => {
    const isOpen = view.open.includes(group);
    change({ open: isOpen ? view.open.filter((one) => one !== group) : [...view.open, group] });
  };

  addEventListener("popstate", follow);
  addEventListener("_dashprivate_pushstate", () => isHere() && write() !== location.search && follow());
  document.addEventListener("input", ({ target }) => target.id === "runs-q" && change({ q: target.value.slice(0, 500) }, true));
  document.addEventListener("change", ({ target }) => {
    if (target.dataset?.filter) change({ [target.dataset.filter]: target.value });
  });
  document.addEventListener("click", ({ target }) => {
    if (target.id === "runs-clear") change({ q: "", state: "", verdict: "", severity: "" });
  });

  window.dashAgGridFunctions = Object.assign(window.dashAgGridFunctions || {}, { runsValue: value, runsCompare: compare });
  Object.assign(runs, {
    begin, go, toggle, refresh, redraw,
    isOpen: (group) => view.open.includes(group),
    nodeOf: (id) => (api ? api.getRowNode(id) : undefined),
  });
})();
