/* One stretch for all charts: who zooms into one sees the same stretch in each, and the server is asked for its points.
   The address holds it behind a "#", as in #20..40. Hovering over a chart shows a line at that place in each, and its
   values in the legends. */
(function () {
  "use strict";
  const { rlwatch } = window;
  const PAUSE = 150; // milliseconds without another zoom
  const NEAR = 4; // pixels from a point at which its value is told

  const bound = new WeakSet();
  let stretch = null; // [from, to] in numbers of the x axis, or null for all
  let timer = null;

  const onRunPage = (plot) => plot.closest("#run-charts") !== null;
  const rangeOf = (plot) => {
    const axis = plot._fullLayout.xaxis;
    return axis.autorange ? null : axis.range.map((end) => axis.r2l(end));
  };

  function inAddress() {
    const [from, to] = location.hash.slice(1).split("..").map((end) => (end ? Number(end) : NaN));
    return from < to ? [from, to] : null;
  }

  function toAddress() {
    const hash = stretch ? `#${stretch.map((end) => Number(end.toPrecision(12))).join("..")}` : "";
    if (location.hash !== hash) history.replaceState(history.state, "", location.pathname + location.search + hash);
  }

  const same = (a, b) => a === b || (a && b && a[0] === b[0] && a[1] === b[1]);

  function zoomed(plot, event) {
    if (!Object.keys(event).some((key) => key.startsWith("xaxis."))) return;
    const wanted = rangeOf(plot);
    if (same(wanted, stretch)) return;
    stretch = wanted;
    toAddress();
    rlwatch.refreshAll();
    clearTimeout(timer);
    timer = setTimeout(() => rlwatch.askForSeed({ again: true }), PAUSE);
  }

  /* The point of a curve that is nearest to a place, if it is near enough to be meant. */
  function nearest(trace, axis, x) {
    const at = (i) => axis.d2l(trace.x[i]);
    let [low, high] = [0, trace.x.length - 1];
    if (high < 0) return null;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (at(middle) < x) low = middle + 1;
      else high = middle;
    }
    const i = low > 0 && x - at(low - 1) < at(low) - x ? low - 1 : low;
    return Math.abs(axis.l2p(at(i)) - axis.l2p(x)) <= NEAR ? i : null;
  }

  const digits = (value) => String(Number(value.toPrecision(4))).replace("-", "−");
  function inWords(plot, value) {
    if (value === null || value === undefined) return "no number";
    return plot.layout.yaxis.tickformat === ".0%" ? `${Number((100 * value).toPrecision(3))} %` : digits(value);
  }

  function tell(plot, x) {
    const axis = plot._fullLayout.xaxis;
    const line = lineOf(plot);
    const left = axis._offset + axis.l2p(x);
    line.hidden = left < axis._offset - 1 || left > axis._offset + axis._length + 1;
    line.style.transform = `translateX(${left}px)`;
    for (const readout of plot.closest(".card").querySelectorAll("[data-latest]")) {
      const name = readout.dataset.latest;
      const trace = plot.data.find((t) => t.meta === `smooth:${name}`) || plot.data.find((t) => t.meta === name);
      const i = trace ? nearest(trace, axis, x) : null;
      if (readout.dataset.newest === undefined) readout.dataset.newest = readout.textContent;
      readout.dataset.at = String(x);
      readout.textContent = i === null ? "–" : inWords(plot, trace.y[i]);
    }
  }

  function lineOf(plot) {
    const holder = plot.closest(".plot");
    let line = holder.querySelector(":scope > .hover-line");
    if (!line) {
      line = document.createElement("i");
      line.className = "hover-line";
      holder.append(line);
    }
    return line;
  }

  const seenPlots = () => (rlwatch.all() || []).filter((plot) => onRunPage(plot) && rlwatch.isSeen(plot));

  function hovered(plot, event) {
    const x = plot._fullLayout.xaxis.d2l(event.points[0].x);
    seenPlots().forEach((one) => tell(one, x));
  }

  function unhovered() {
    document.querySelectorAll(".hover-line").forEach((line) => { line.hidden = true; });
    for (const readout of document.querySelectorAll("[data-latest][data-at]")) {
      readout.textContent = readout.dataset.newest;
      delete readout.dataset.at;
    }
  }

  function draw(plot) {
    if (!onRunPage(plot)) return;
    if (!bound.has(plot)) {
      bound.add(plot);
      plot.on("plotly_relayout", (event) => zoomed(plot, event));
      plot.on("plotly_hover", (event) => hovered(plot, event));
      plot.on("plotly_unhover", unhovered);
      if (!stretch && rangeOf(plot)) zoomed(plot, { "xaxis.range": rangeOf(plot) }); // somebody was quicker than this
    }
    if (same(rangeOf(plot), stretch)) return;
    window.Plotly.relayout(plot, stretch ? { "xaxis.range": [...stretch] } : { "xaxis.autorange": true });
  }

  /* A page of another run, or over another x, begins with what its address says, or with all of it. The same one, made
     anew, stays where it was. */
  let place = null;
  function enter(search) {
    const x = new URLSearchParams(search || "").get("x") || "step";
    const here = `${location.pathname} ${x}`;
    if (place !== here) stretch = inAddress();
    if (stretch) setTimeout(() => rlwatch.askForSeed({ again: true }), PAUSE);
    place = here;
    toAddress();
    return window.dash_clientside.no_update;
  }

  rlwatch.onRefresh(draw);
  rlwatch.window = () => stretch;
  window.dash_clientside.rlwatch = Object.assign({}, window.dash_clientside.rlwatch, { enter });
})();
