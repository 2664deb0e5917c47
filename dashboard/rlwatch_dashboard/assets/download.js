/* Saves a chart as it is shown, as PNG or SVG: with its title and its legend, on the panel's own colour. */
(function () {
  "use strict";
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const asText = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const TOP = 46; // pixels, for the title

  /* The run's name and the chart's key, without what a file system may take amiss. */
  function nameOf(chart) {
    const heading = document.querySelector("main h1");
    const words = [heading ? heading.textContent : "rlwatch", chart];
    return words.map((word) => word.replace(/[^\p{L}\p{N}._-]+/gu, "-")).join("-").slice(0, 150);
  }

  function pictureOf(plot, title) {
    const { layout, _fullLayout: full } = plot;
    const named = plot.data.filter((trace) => trace.name && trace.showlegend !== false);
    const seen = new Set();
    const data = plot.data.map((trace) => {
      const show = named.length > 1 && Boolean(trace.name) && !seen.has(trace.name) && trace.line?.width !== 0;
      if (show) seen.add(trace.name);
      const isArea = named.length > 1 && trace.stackgroup !== undefined && !seen.has(trace.name);
      if (isArea) seen.add(trace.name);
      return { ...trace, showlegend: show || isArea };
    });
    const ink = css("--ink");
    const top = (full.margin.t || 0) + TOP;
    const legend = { orientation: "h", x: 0, xanchor: "left", y: 0, yref: "container", yanchor: "bottom" };
    const bottom = full.margin.b + (seen.size > 0 ? 26 : 0);
    return {
      data,
      layout: {
        ...layout, width: full.width, height: full.height + TOP + bottom - full.margin.b, autosize: false,
        margin: { ...full.margin, t: top, b: bottom },
        showlegend: seen.size > 0, legend: { ...legend, font: { size: 11, color: ink } },
        title: { text: asText(title), x: 0.02, y: 1, yref: "container", yanchor: "top", pad: { t: 12 }, font: { size: 15, color: ink } },
        font: { ...layout.font, color: css("--soft") },
        paper_bgcolor: css("--panel"), plot_bgcolor: css("--panel"),
      },
      config: { staticPlot: true },
    };
  }

  async function save(button) {
    const card = button.closest("article");
    const plot = card && card.querySelector(".js-plotly-plot");
    if (!plot || !plot._fullLayout || !window.Plotly) return;
    const { save: format, chart, title } = button.dataset;
    const picture = pictureOf(plot, title);
    const { width, height } = picture.layout;
    button.disabled = true;
    try {
      const address = await window.Plotly.toImage(picture, { format, width, height, scale: format === "png" ? 2 : 1 });
      const link = document.createElement("a");
      link.href = address;
      link.download = `${nameOf(chart)}.${format}`;
      document.body.append(link);
      link.click();
      link.remove();
    } finally {
      button.disabled = false;
      button.focus();
    }
  }

  document.addEventListener("click", ({ target }) => {
    const button = target.closest ? target.closest("[data-save]") : null;
    if (button) save(button);
  });
})();
