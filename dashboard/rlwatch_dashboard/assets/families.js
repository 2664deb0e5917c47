/* Folds of charts: which are open is remembered here, and only their charts are asked for. A folded chart is not there at
   all, so it costs nothing. */
(function () {
  "use strict";
  const KEY = "rlwatch-unfolded";
  let remembered = new Set();
  try { remembered = new Set(JSON.parse(localStorage.getItem(KEY)) || []); } catch { /* storage may be forbidden */ }
  const wanted = new WeakMap(); // fold → for which page its charts were asked for
  let told = ""; // the open ones, as the page's questions name them

  function remember() {
    try { localStorage.setItem(KEY, JSON.stringify([...remembered])); } catch { /* as above */ }
  }

  const folds = () => [...document.querySelectorAll("details[data-family]")];

  function ask(fold) {
    const key = fold.dataset.family;
    const want = fold.open ? location.pathname + location.search : "";
    if ((wanted.get(fold) || "") === want) return;
    wanted.set(fold, want);
    window.dash_clientside.set_props({ type: "wanted", key }, { data: want });
  }

  function sync() {
    const all = folds();
    if (!all.length || !window.dash_clientside.set_props) return;
    for (const fold of all) {
      if (!wanted.has(fold)) {
        fold.open = remembered.has(fold.dataset.family);
        wanted.set(fold, "");
      }
      ask(fold);
    }
    const open = all.filter((fold) => fold.open).map((fold) => fold.dataset.family);
    const page = `${location.pathname}${location.search} ${open.join()}`;
    if (page === told) return;
    told = page;
    window.dash_clientside.set_props("unfolded", { data: open });
  }

  document.addEventListener("toggle", ({ target }) => {
    const key = target.dataset && target.dataset.family;
    if (!key || !wanted.has(target)) return;
    if (target.open) remembered.add(key);
    else remembered.delete(key);
    remember();
    sync();
  }, true);

  let scheduled = false;
  new MutationObserver(() => {
    if (scheduled) return;
    scheduled = true;
    requestIdleCallback(() => { scheduled = false; sync(); }, { timeout: 300 });
  }).observe(document.documentElement, { childList: true, subtree: true });
})();
