/* What the browser does with the server's answers: new points go to the charts, new values to their legends, and the
   cursor moves on. */
(function () {
  "use strict";
  const { rlwatch } = window;
  const FEW = 60; // points
  const RELOAD_PATIENCE = 20000; // milliseconds

  const waiting = new WeakMap(); // trace → points that it has not been given yet
  const expected = new WeakMap(); // trace → how long it is once it has drawn what it was given
  let asked = { at: 0, cursor: null }; // when the whole page was last asked for, and from where

  const sameCursor = (a, b) => a.metrics === b.metrics && a.alerts === b.alerts && a.step === b.step;

  function keep(plots, series) {
    for (const trace of plots.flatMap((plot) => plot.data)) {
      const points = series[trace.meta];
      if (!points) continue;
      const before = waiting.get(trace) || { x: [], y: [] };
      waiting.set(trace, { x: before.x.concat(points.x), y: before.y.concat(points.y) });
    }
  }

  /* Dots where a point may stand alone, as in figures.py. */
  const modeOf = (values) => (values.length < FEW || values.includes(null) ? "lines+markers" : "lines");

  /* Gives a chart the points that wait for it, by extendData. It gets none while it has yet to draw the last ones: Dash
     would hand those over twice. */
  function give(plot, holder) {
    const isDrawn = plot.data.every((trace) => !expected.has(trace) || trace.x.length >= expected.get(trace));
    const update = { x: [], y: [] };
    const indices = [];
    plot.data.forEach((trace, index) => {
      const points = waiting.get(trace);
      if (!isDrawn || !points) return;
      waiting.delete(trace);
      if (!trace.stackgroup) trace.mode = modeOf(trace.y.concat(points.y));
      expected.set(trace, trace.x.length + points.x.length);
      update.x.push(points.x);
      update.y.push(points.y);
      indices.push(index);
    });
    if (indices.length) window.dash_clientside.set_props(JSON.parse(holder.id), { extendData: [update, indices] });
  }

  /* The newest values are written straight into the page: as Dash properties they would cost more than the charts. */
  function write(latest) {
    for (const element of document.querySelectorAll("[data-latest]")) {
      const value = latest[element.dataset.latest];
      if (value !== undefined) element.textContent = value;
    }
  }

  /* Asks for the whole page, once for each place it is needed at, and again only if no answer came. */
  function reload(cursor) {
    const isAsked = asked.cursor && sameCursor(asked.cursor, cursor) && Date.now() - asked.at < RELOAD_PATIENCE;
    if (isAsked) return window.dash_clientside.no_update;
    asked = { at: Date.now(), cursor };
    return asked.at;
  }

  /* Takes in a chunk and answers with the new cursor, or asks for the whole page. A chunk is left alone where it does not
     begin at the page's cursor (it was asked for twice) or the charts are not there yet: it will come again. */
  function apply(chunk, cursor) {
    const unchanged = window.dash_clientside.no_update;
    const plots = rlwatch.all();
    if (!chunk || !plots || !sameCursor(chunk.from, cursor)) return [unchanged, unchanged];

    const curves = new Set(plots.flatMap((plot) => plot.data.filter((t) => t.x.length).map((t) => t.meta)));
    const isNew = Object.keys(chunk.series).some((name) => !curves.has(name));
    if (chunk.restarted || isNew) return [unchanged, reload(cursor)];

    keep(plots, chunk.series);
    write(chunk.latest);
    rlwatch.refreshAll();
    return [chunk.to, unchanged];
  }

  function title(text) {
    if (text) document.title = text;
    return window.dash_clientside.no_update;
  }

  rlwatch.onRefresh(give);
  window.dash_clientside = Object.assign({}, window.dash_clientside);
  window.dash_clientside.rlwatch = Object.assign({}, window.dash_clientside.rlwatch, { apply, title });
})();
