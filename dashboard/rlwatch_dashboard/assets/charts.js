/* The charts of the page, and which of them are seen. Only those are drawn: the others wait until they come into view,
   so that a page left open in the background all night costs next to nothing. */
(function () {
  "use strict";
  const seen = new Set();
  const draws = [];

  const holders = () => document.querySelectorAll(".plot .dash-graph");
  const plotIn = (holder) => {
    const plot = holder.querySelector(".js-plotly-plot");
    return plot && plot.data && plot._fullLayout && plot._fullLayout.xaxis ? plot : null;
  };

  /* Every chart's Plotly element, or null while one of them is not there yet. */
  function all() {
    const plots = [...holders()].map(plotIn);
    return plots.length && plots.every(Boolean) ? plots : null;
  }

  function refresh(holder) {
    const plot = plotIn(holder);
    if (plot && !document.hidden && seen.has(holder)) draws.forEach((draw) => draw(plot, holder));
  }

  const observer = new IntersectionObserver(
    (entries) => entries.forEach((entry) => {
      if (!entry.isIntersecting) return seen.delete(entry.target);
      seen.add(entry.target);
      return refresh(entry.target);
    }),
    { rootMargin: "100px" },
  );

  /* Draws what is new in every chart that is seen. */
  function refreshAll() {
    for (const holder of holders()) {
      observer.observe(holder); // again and again does no harm
      refresh(holder);
    }
  }

  document.addEventListener("visibilitychange", refreshAll);

  /* A chart that has come, as where a fold was opened, is drawn as the others are, also where no step comes any more. */
  const known = new WeakSet();
  let timer = null;
  new MutationObserver(() => {
    timer = timer || setTimeout(() => {
      timer = null;
      const fresh = [...holders()].map(plotIn).filter((plot) => plot && !known.has(plot));
      fresh.forEach((plot) => known.add(plot));
      if (fresh.length) refreshAll();
    }, 200);
  }).observe(document.documentElement, { childList: true, subtree: true });

  /* `draw(plot, holder)` is called whenever there may be something new to draw in a chart that is seen. */
  const isSeen = (plot) => seen.has(plot.closest(".dash-graph"));
  window.rlwatch = { all, isSeen, refreshAll, onRefresh: (draw) => draws.push(draw), window: () => null };
})();
