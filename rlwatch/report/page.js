/* Draws each chart of the page when it comes into view: a report of fifty runs costs no more than what is looked at. */
(function () {
  "use strict";
  const FEW = 60; // up to how many points a line has dots
  const FLAG_HEIGHT = 15; // pixels
  const FLAG_ROWS = 4;
  const LETTER = 6.3; // pixels, of the flag's font
  const TOP = 8;
  const WORST_FIRST = ["critical", "warning", "info"];

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const fade = (span) => (span.over ? 0.7 : 1);
  const asText = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const json = (element) => JSON.parse(element.textContent);

  const marksOf = (holder) => {
    const element = holder.closest("[data-run]")?.querySelector("script.marks");
    return element ? json(element) : { spans: [] };
  };

  const stepsOf = (trace) => trace.x || trace.y.map((_, i) => trace.from + i * trace.by);

  function traceOf(trace, share) {
    const base = {
      type: "scatter", name: trace.label, x: stepsOf(trace), y: trace.y,
      hovertemplate: share ? "%{y:.1%}" : "%{y:.4~g}",
      ...(trace.label ? {} : { hoverinfo: "skip", hovertemplate: undefined }),
    };
    if (trace.area) {
      return { ...base, mode: "lines", stackgroup: "areas", fillcolor: trace.colour + "b0",
        line: { width: 0, shape: "hvh", color: trace.colour } };
    }
    if (trace.points) return { ...base, mode: "markers", marker: { size: 8, color: trace.colour } };
    const dots = trace.y.length < FEW || trace.y.includes(null);
    return { ...base, mode: dots ? "lines+markers" : "lines",
      line: { color: trace.colour, width: trace.thin ? 1.2 : 1.8, ...(trace.dash ? { dash: "3px,2px" } : {}) },
      marker: { size: 2, color: trace.colour, maxdisplayed: 200 } };
  }

  /* A cross on the axis wherever a value was NaN or infinite: the gap in the line alone could be taken for nothing. */
  function oddOf(traces) {
    const places = traces.flatMap((trace) => Object.entries(trace.odd || {}).map(
      ([i, what]) => ({ x: stepsOf(trace)[i], text: `${trace.label} ${what}` })));
    if (!places.length) return [];
    return [{
      type: "scatter", mode: "markers", name: "no number", yaxis: "y2", x: places.map((p) => p.x), y: places.map(() => 0.03),
      text: places.map((p) => p.text), hovertemplate: "%{text}<extra></extra>",
      marker: { symbol: "x-thin", size: 6, line: { width: 1.6, color: css("--critical") } },
    }];
  }

  function layoutOf(spec, small, odd, { first, last }) {
    const range = first === undefined ? {} : { range: first < last ? [first, last] : [first - 1, last + 1] };
    const rows = spec.rows?.length ? spec.rows : null; // names in place of numbers
    const unit = spec.over || "step";
    const quiet = { showline: false, zeroline: false, gridcolor: "rgba(124,135,152,.18)", automargin: false };
    return {
      hovermode: "x unified", hoverlabel: { font: { size: 12 }, namelength: -1 }, showlegend: false,
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom", // a finger scrolls the page
      margin: { l: rows ? 140 : 46, r: 10, t: TOP, b: 28, pad: 0 }, font: { size: 11, color: "#7c8798" },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      xaxis: { ...quiet, ...range, showgrid: false, rangemode: "nonnegative", nticks: small ? 4 : 7, tickformat: ",d",
        tickprefix: `${unit} `, showtickprefix: "first", ticks: "outside", ticklen: 6, tickcolor: "rgba(0,0,0,0)",
        hoverformat: ",d", unifiedhovertitle: { text: `${unit} %{x}` } },
      yaxis: { ...quiet, fixedrange: true, nticks: small ? 4 : 6, rangemode: spec.free ? "normal" : "tozero",
        tickformat: spec.share ? ".0%" : "", exponentformat: "e", ...(spec.share ? { range: [0, 1.001] } : {}),
        ...(rows ? { tickvals: rows.map((_, i) => i), ticktext: rows, range: [rows.length - 0.5, -0.5] } : {}) },
      ...(odd ? { yaxis2: { overlaying: "y", range: [0, 1], visible: false, fixedrange: true } } : {}),
    };
  }

  /* Where each severity holds. Where several alerts hold at once the worst one gives the tint: tints are not mixed. */
  function bandsOf({ spans, last }) {
    const all = spans.flatMap((span) => span.bands.map(([from, to, severity]) => ({ from, to: to ?? last, severity })));
    const edges = [...new Set(all.flatMap((band) => [band.from, band.to]))].sort((a, b) => a - b);
    return edges.slice(1).flatMap((to, i) => {
      const holding = all.filter((band) => band.from <= edges[i] && to <= band.to).map((band) => band.severity);
      const severity = WORST_FIRST.find((one) => holding.includes(one));
      return severity ? [{ from: edges[i], to, severity }] : [];
    });
  }

  function shapesOf(marks) {
    const place = { xref: "x", yref: "paper", y0: 0, y1: 1 };
    const tints = bandsOf(marks).map(({ from, to, severity }) => ({
      ...place, type: "rect", layer: "below", x0: from, x1: to, line: { width: 0 },
      fillcolor: css("--" + severity), opacity: severity === "info" ? 0.06 : 0.12,
    }));
    const lines = marks.spans.map((span) => ({
      ...place, type: "line", layer: "above", x0: span.fired, x1: span.fired, opacity: fade(span),
      line: { color: css("--" + span.severity), width: 1.2, dash: "2px,2px" },
    }));
    return [...tints, ...lines];
  }

  /* Flags stand over the chart on their line, to the left of it where there is no room to the right, above each other
     where they would touch. Those that find no room in a few rows are left to the list of alerts. */
  function flagsOf(plot, spans) {
    const axis = plot._fullLayout.xaxis;
    const taken = [];
    return [...spans].sort((a, b) => a.fired - b.fired).flatMap((span) => {
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

  function draw(holder) {
    if (holder.drawn) return;
    holder.drawn = true;
    const spec = json(holder.nextElementSibling);
    const marks = marksOf(holder);
    const small = holder.closest(".small") !== null;
    const odd = oddOf(spec.traces);
    const layout = { ...layoutOf(spec, small, odd.length, marks), shapes: shapesOf(marks) };
    const traces = [...spec.traces.map((trace) => traceOf(trace, spec.share)), ...odd];
    window.Plotly.newPlot(holder, traces, layout, { displayModeBar: false, responsive: true, doubleClick: "reset" });
    const annotations = small ? [] : flagsOf(holder, marks.spans);
    if (!annotations.length) return;
    const rows = Math.max(...annotations.map((flag) => 1 + flag.yshift / FLAG_HEIGHT));
    window.Plotly.relayout(holder, { annotations, "margin.t": TOP + rows * FLAG_HEIGHT });
  }

  const plots = () => [...document.querySelectorAll(".plot")];
  const shown = (holder) => holder.offsetWidth > 0 && !holder.closest("details:not([open])");
  const observer = new IntersectionObserver(
    (entries) => entries.forEach((entry) => {
      if (!entry.isIntersecting || !shown(entry.target)) return;
      observer.unobserve(entry.target);
      draw(entry.target);
    }),
    { rootMargin: "200px" },
  );
  plots().forEach((holder) => observer.observe(holder));

  /* A link to a run unfolds it. */
  function unfold() {
    const target = location.hash.startsWith("#run-") ? document.getElementById(location.hash.slice(1)) : null;
    if (!target) return;
    target.open = true;
    target.scrollIntoView();
  }
  window.addEventListener("hashchange", unfold);
  document.addEventListener("click", (event) => {
    if (event.target.closest?.("a[href^='#run-']")) setTimeout(unfold); // also a second time on the same link
  });
  unfold();

  /* On paper there is no scrolling: what is unfolded is drawn, as wide as a column. */
  window.addEventListener("beforeprint", () => plots().filter(shown).forEach((holder) => {
    draw(holder);
    window.Plotly.relayout(holder, { width: 320, height: 200 });
  }));
  window.addEventListener("afterprint", () => plots().filter((holder) => holder.drawn).forEach(
    (holder) => window.Plotly.relayout(holder, { width: null, height: null, autosize: true })));
})();
