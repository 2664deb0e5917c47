/* Draws the alerts over the curves: a tinted span while one holds, a line with a flag where it fired.

   They go in by Plotly.relayout, which leaves the points alone. Only what differs from what is drawn is drawn again. */
(function () {
  "use strict";
  const { rlwatch } = window;
  const FLAG_HEIGHT = 15; // pixels
  const FLAG_ROWS = 4;
  const LETTER = 6.3; // pixels, of the flag's font
  const TOP = 8; // pixels over a chart without flags, as in figures.py
  const WORST_FIRST = ["critical", "warning", "info"];

  const dragmode = matchMedia("(pointer: coarse)").matches ? false : "zoom"; // a finger scrolls the page

  let spans = []; // as of the last call of mark
  let state = "live"; // of the run
  let newest = null; // on the x axis
  let edge = 0; // where on the x axis the bands of open alerts end

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const fade = (span) => (span.over ? 0.7 : 1);
  const asText = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  /* Where each severity holds. Where several alerts hold at once the worst one gives the tint: tints are not mixed. */
  function bandsOf() {
    const all = spans.flatMap((span) => span.bands.map((band) => ({ ...band, to: band.to === null ? edge : band.to })));
    const edges = [...new Set(all.flatMap((band) => [band.from, band.to]))].sort((a, b) => a - b);
    const bands = [];
    for (let i = 0; i + 1 < edges.length; i += 1) {
      const [from, to] = [edges[i], edges[i + 1]];
      const holding = all.filter((band) => band.from <= from && to <= band.to).map((band) => band.severity);
      const severity = WORST_FIRST.find((one) => holding.includes(one));
      const before = bands[bands.length - 1];
      if (before && before.to === from && before.severity === severity) before.to = to;
      else if (severity) bands.push({ from, to, severity });
    }
    return bands;
  }

  function shapesOf() {
    const place = { xref: "x", yref: "paper", y0: 0, y1: 1 };
    const tints = bandsOf().map(({ from, to, severity }) => ({
      ...place, type: "rect", layer: "below", x0: from, x1: to, line: { width: 0 },
      fillcolor: css("--" + severity), opacity: severity === "info" ? 0.06 : 0.12,
    }));
    const lines = spans.map((span) => ({
      ...place, type: "line", layer: "above", x0: span.fired, x1: span.fired, opacity: fade(span),
      line: { color: css("--" + span.severity), width: 1.2, dash: "2px,2px" },
    }));
    return [...tints, ...lines];
  }

  /* Flags stand over the chart on their line, to the left of it where there is no room to the right, above each other
     where they would touch. Those that find no room in a few rows are left to the list of alerts. */
  function flagsOf(plot) {
    const axis = plot._fullLayout.xaxis;
    const taken = [];
    return [...spans]
      .sort((a, b) => a.fired - b.fired)
      .flatMap((span) => {
        const width = span.rule.length * LETTER + 10;
        const at = axis.d2p(span.fired);
        const leftwards = at + width > axis._length;
        const [from, to] = leftwards ? [at - width, at] : [at, at + width];
        let row = 0;
        while (taken.some((flag) => flag.row === row && flag.from < to && from < flag.to)) row += 1;
        if (row >= FLAG_ROWS) return [];
        taken.push({ row, from, to });
        return [{
          x: span.fired, xref: "x", y: 1, yref: "paper", yshift: row * FLAG_HEIGHT, opacity: fade(span),
          xanchor: leftwards ? "right" : "left", yanchor: "bottom", showarrow: false, borderpad: 1,
          text: asText(span.rule), font: { size: 10.5, color: "#fff" }, bgcolor: css(`--${span.severity}-fill`),
        }];
      });
  }

  function draw(plot) {
    if (newest === null) return;
    const large = plot.closest(".large") !== null;
    const annotations = large ? flagsOf(plot) : [];
    const rows = Math.max(0, ...annotations.map((flag) => 1 + flag.yshift / FLAG_HEIGHT));
    const wanted = { shapes: shapesOf(), annotations, "margin.t": TOP + rows * FLAG_HEIGHT, dragmode };
    const { shapes = [], annotations: flags = [], margin } = plot.layout;
    const drawn = { shapes, annotations: flags, "margin.t": margin.t, dragmode: plot.layout.dragmode };
    if (JSON.stringify(wanted) !== JSON.stringify(drawn)) window.Plotly.relayout(plot, wanted);
  }

  /* The newest place on the x axis that the run itself has, and the first. */
  function ends() {
    const own = (trace) => !/^(with|band-|gaps:)/.test(trace.meta) && trace.x.length;
    const traces = (rlwatch.all() || []).flatMap((plot) => plot.data.filter(own));
    const numbers = (list) => list.map((x) => (typeof x === "number" ? x : Date.parse(x)));
    if (!traces.length) return null;
    return {
      first: Math.min(...numbers(traces.map((trace) => trace.x[0]))),
      last: Math.max(...numbers(traces.map((trace) => trace.x[trace.x.length - 1]))),
    };
  }

  /* Where the band of an alert that still holds ends: a little past the newest step, so that it need not be drawn again
     at every step, which costs as much as the curve. Where no step will come any more, at the last one. */
  function moveEdge() {
    const found = ends();
    if (!found) return;
    const { first, last } = found;
    const margin = Math.max(last - first > 1e6 ? 1 : 2, Math.ceil((last - first) * 0.05));
    if (state === "ended") edge = last;
    else if (newest === null || last > edge || last < newest) edge = last + margin;
    newest = last;
  }

  function mark(all, cursor) {
    if (all !== spans) newest = null;
    spans = all;
    state = cursor.state;
    drawSoon();
    return window.dash_clientside.no_update;
  }

  /* The charts' code is loaded after the page, so the first marks wait for the first curves. */
  function drawSoon(tries = 200) {
    if (rlwatch.all()) {
      moveEdge();
      rlwatch.refreshAll();
    } else if (tries > 0) setTimeout(() => drawSoon(tries - 1), 50);
  }

  rlwatch.onRefresh(draw);
  window.dash_clientside.rlwatch = Object.assign({}, window.dash_clientside.rlwatch, { mark });
})();
