/* Charts on paper: they were drawn as wide as the screen, and are scaled to what there is (print.css). For that each
   picture has to say which part of itself it shows. */
(function () {
  "use strict";
  const pictures = () => document.querySelectorAll(".js-plotly-plot .main-svg");

  function scale() {
    for (const picture of pictures()) {
      const [width, height] = ["width", "height"].map((name) => parseFloat(picture.getAttribute(name)));
      if (width > 0 && height > 0) picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    }
  }
  const restore = () => pictures().forEach((picture) => picture.removeAttribute("viewBox"));

  addEventListener("beforeprint", scale);
  addEventListener("afterprint", restore);
  matchMedia("print").addEventListener("change", ({ matches }) => (matches ? scale() : restore()));
})();
