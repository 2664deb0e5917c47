/* What the browser does with the server's answers: new points go to the charts, new values to their legends, and the
   cursor moves on. A page holds a bounded number of points: after many new ones it asks for fresh points of every chart,
   which take the place of those it has (a seed). */
(function () {
  "use strict";
  const { rlwatch } = window;
  const FEW = 60; // points
  const MOST_NEW = 1000; // points of a curve since its last seed
  const PATIENCE = 20000; // milliseconds for an answer
  const BESIDE = 10000; // milliseconds from one look at the runs beside this one to the next

  const waiting = new WeakMap(); // trace → points that it has not been given yet
  const stale = new WeakSet(); // charts whose points were replaced, and that have to be drawn anew
  let asked = { at: 0, cursor: null }; // when the whole page was last asked for, and from where
  let seed = { n: 0, at: 0, isWaiting: false }; // the newest question for fresh points
  let added = 0; // points since the last seed

  const unchanged = () => window.dash_clientside.no_update;
  const sameCursor = (a, b) => a.metrics === b.metrics && a.alerts === b.alerts && a.step === b.step;
  const numberOf = (x) => (typeof x === "number" ? x : Date.parse(x));

  /* Points behind those that a trace has or waits for: a chart that was unfolded a moment ago is ahead of the cursor. */
  function newer(trace, points, before) {
    const last = before.x.length ? before.x[before.x.length - 1] : trace.x[trace.x.length - 1];
    if (last === undefined || points.x[0] > numberOf(last)) return points;
    const keep = points.x.map((x) => x > numberOf(last));
    return Object.fromEntries(Object.entries(points).map(([key, list]) => [key, list.filter((_, i) => keep[i])]));
  }

  function keep(plots, series) {
    for (const trace of plots.flatMap((plot) => plot.data)) {
      if (!series[trace.meta]) continue;
      const before = waiting.get(trace) || { x: [], y: [] };
      const points = newer(trace, series[trace.meta], before);
      if (!points.x.length) continue;
      const all = Object.keys(points).map((key) => [key, (before[key] || []).concat(points[key])]);
      waiting.set(trace, Object.fromEntries(all));
    }
  }

  const isCurve = (trace) => (trace.mode || "").startsWith("lines") && !trace.stackgroup && !trace.hoverinfo;

  /* Dots where a point may stand alone, as in figures.py. */
  const modeOf = (values) => (values.length < FEW || values.includes(null) ? "lines+markers" : "lines");

  /* Gives a chart the points that wait for it. Its figure in Dash holds the very same traces, so both stay one. */
  function give(plot) {
    if (stale.delete(plot)) {
      plot.data.filter(isCurve).forEach((trace) => { trace.mode = modeOf(trace.y); });
      window.Plotly.redraw(plot);
      return;
    }
    const groups = new Map(); // the keys of the points → traces that get such points
    plot.data.forEach((trace, index) => {
      const points = waiting.get(trace);
      if (!points) return;
      waiting.delete(trace);
      if (isCurve(trace)) trace.mode = modeOf(trace.y.concat(points.y));
      const kind = Object.keys(points).join();
      groups.set(kind, [...(groups.get(kind) || []), { index, points }]);
    });
    for (const [kind, members] of groups) {
      const update = Object.fromEntries(kind.split(",").map((key) => [key, members.map(({ points }) => points[key])]));
      window.Plotly.extendTraces(plot, update, members.map(({ index }) => index));
    }
  }

  /* The newest values are written straight into the page: as Dash properties they would cost more than the charts. */
  function write(latest) {
    for (const element of document.querySelectorAll("[data-latest]")) {
      const value = latest[element.dataset.latest];
      if (value === undefined) continue;
      element.dataset.newest = value;
      if (!element.dataset.at) element.textContent = value;
    }
  }

  /* Asks for the whole page, once for each place it is needed at, and again only if no answer came. */
  function reload(cursor) {
    const isAsked = asked.cursor && sameCursor(asked.cursor, cursor) && Date.now() - asked.at < PATIENCE;
    if (isAsked) return unchanged();
    asked = { at: Date.now(), cursor };
    return asked.at;
  }

  /* Asks for fresh points of every chart; the newest question counts. */
  function askForSeed({ again = false } = {}) {
    if (seed.isWaiting && !again && Date.now() - seed.at < PATIENCE) return;
    seed = { n: seed.n + 1, at: Date.now(), isWaiting: true };
    window.dash_clientside.set_props("ask", { data: { n: seed.n, window: rlwatch.window() } });
  }

  /* Takes in a chunk and answers with the new cursor, or asks for the whole page. A chunk is left alone where it does not
     begin at the page's cursor (it was asked for twice) or the charts are not there yet: it will come again. */
  function apply(chunk, cursor) {
    const plots = rlwatch.all();
    if (!chunk || !plots || !sameCursor(chunk.from, cursor)) return [unchanged(), unchanged()];
    if (chunk.restarted || chunk.fresh) return [unchanged(), reload(cursor)];
    if (chunk.many) {
      askForSeed();
      return [unchanged(), unchanged()];
    }
    keep(plots, chunk.series);
    added += Math.max(0, ...Object.values(chunk.series).map((points) => points.x.length));
    write(chunk.latest);
    rlwatch.refreshAll();
    if (added > MOST_NEW) askForSeed();
    return [chunk.to, unchanged()];
  }

  /* Puts fresh points in the place of those that the charts have. */
  function replant(answer, cursor) {
    const plots = rlwatch.all();
    if (!answer || answer.n !== seed.n || !plots) {
      seed.isWaiting = false;
      return unchanged();
    }
    for (const plot of plots) {
      for (const trace of plot.data) {
        const points = answer.series[trace.meta];
        if (!points) continue;
        Object.assign(trace, points);
        waiting.delete(trace);
        stale.add(plot);
      }
    }
    seed.isWaiting = false;
    added = 0;
    rlwatch.refreshAll();
    return { ...cursor, ...answer.at };
  }

  /* Runs that are drawn beside this one grow, too, also when this one has ended. */
  function lookBeside() {
    const isBeside = (trace) => /^(with:|band-)/.test(trace.meta || "");
    if (!document.hidden && (rlwatch.all() || []).some((plot) => plot.data.some(isBeside))) askForSeed();
  }

  function title(text) {
    if (text) document.title = text;
    return window.dash_clientside.no_update;
  }

  rlwatch.onRefresh(give);
  setInterval(lookBeside, BESIDE);
  rlwatch.askForSeed = askForSeed;
  window.dash_clientside = Object.assign({}, window.dash_clientside);
  window.dash_clientside.rlwatch = Object.assign({}, window.dash_clientside.rlwatch, { apply, replant, title });
})();
