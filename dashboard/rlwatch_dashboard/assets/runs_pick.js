/* Which runs are chosen for a comparison: it outlives a refresh, a filter and a look at another page of the site. */
(function () {
  "use strict";
  const runs = (window.rlwatchRuns = window.rlwatchRuns || {});
  const chosen = new Set();
  const CHOICE = ["pick", "card"];

  function choose(keys, isOn) {
    for (const key of keys) chosen[isOn ? "add" : "delete"](key);
    show();
    runs.redraw(CHOICE);
  }

  /* A run that is no longer there is no longer chosen. */
  function keepChosen() {
    for (const key of [...chosen]) if (!runs.nodeOf(key)) chosen.delete(key);
    show();
  }

  function show() {
    const link = document.getElementById("runs-compare");
    if (!link) return;
    const base = link.dataset.base;
    const search = new URLSearchParams([...chosen].map((key) => ["run", key]));
    const isEnough = chosen.size > 1;
    link.textContent = chosen.size ? `Compare ${chosen.size}` : "Compare";
    link.title = isEnough ? "" : "Choose two runs or more by their boxes";
    if (isEnough) link.href = `${base}?${search}`;
    else link.removeAttribute("href");
    link.setAttribute("aria-disabled", String(!isEnough));
    document.getElementById("runs-none").hidden = !chosen.size;
  }

  document.addEventListener("click", (event) => {
    const { target } = event;
    if (target.id === "runs-none") choose([...chosen], false);
    if (target.id !== "runs-compare" || !target.href) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || event.button !== 0) return;
    event.preventDefault();
    runs.go(target.getAttribute("href"));
    window.scrollTo(0, 0);
  });

  Object.assign(runs, { choose, keepChosen, isChosen: (key) => chosen.has(key) });
})();
