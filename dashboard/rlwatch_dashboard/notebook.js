/* Draws the charts of a run in the output of a notebook's cell, and follows the notebook in light and dark. */
(async function () {
  "use strict";
  const root = document.documentElement;
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");

  /* JupyterLab and its exports say it on the body, VS Code by a class; a stranger's frame cannot be looked into. */
  function isDark() {
    if (root.dataset.look !== "auto") return root.dataset.look === "dark";
    try {
      const body = window.parent.document.body;
      if (body.dataset.jpThemeLight) return body.dataset.jpThemeLight === "false";
      if (/vscode-(dark|light|high-contrast)/.test(body.className)) return !body.className.includes("vscode-light");
      const [r, g, b, a = 1] = (getComputedStyle(body).backgroundColor.match(/[\d.]+/g) || []).map(Number);
      if (b !== undefined && a > 0) return 0.3 * r + 0.6 * g + 0.1 * b < 128;
    } catch { /* it is a stranger's */ }
    return prefersDark.matches;
  }
  const paint = () => { root.dataset.mantineColorScheme = isDark() ? "dark" : "light"; };
  paint();
  prefersDark.addEventListener("change", paint);
  try {
    new MutationObserver(paint).observe(window.parent.document.body, { attributes: true });
  } catch { /* it is a stranger's */ }

  /* The frame is as high as what is in it, where it may be touched. */
  function fit() {
    try {
      window.frameElement.style.height = `${Math.ceil(document.querySelector("main").getBoundingClientRect().height) + 2}px`;
    } catch { /* it scrolls */ }
  }
  new ResizeObserver(fit).observe(document.querySelector("main"));

  async function unpack(id) {
    const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (sign) => sign.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }
  const data = JSON.parse(await unpack("data"));
  const library = document.createElement("script");
  library.textContent = await unpack("plotly");
  document.head.append(library);

  async function draw(holders) {
    for (const holder of holders) {
      const { data: traces, layout } = data.figures[holder.dataset.chart];
      await window.Plotly.newPlot(holder, traces, layout, { displayModeBar: false, doubleClick: "reset", responsive: true });
    }
  }
  const others = document.querySelector("details.others");
  const folded = others ? [...others.querySelectorAll(".plot")] : [];
  folded.forEach((plot) => plot.classList.remove("plot")); // those are drawn when they are unfolded
  await draw(document.querySelectorAll(".plot [data-chart]"));
  window.dash_clientside.rlwatch.mark(data.spans, data.cursor);
  if (others) {
    others.addEventListener("toggle", async () => {
      folded.forEach((plot) => plot.classList.add("plot"));
      await draw(folded.map((plot) => plot.querySelector("[data-chart]")));
      window.rlwatch.refreshAll();
    }, { once: true });
  }
  root.dataset.drawn = "true";
})();
