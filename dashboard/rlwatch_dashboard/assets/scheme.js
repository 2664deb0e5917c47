/* Light or dark: as the system says until somebody chooses. Mantine's parts of a page read the same place. */
(function () {
  "use strict";
  const KEY = "mantine-color-scheme-value";
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");

  function chosen() {
    try {
      const found = localStorage.getItem(KEY);
      return ["light", "dark"].includes(found) ? found : null;
    } catch { return null; /* storage may be forbidden */ }
  }
  const show = (scheme) => { root.dataset.mantineColorScheme = scheme; };

  document.addEventListener("click", ({ target }) => {
    if (!target.closest || !target.closest(".scheme")) return;
    const scheme = root.dataset.mantineColorScheme === "dark" ? "light" : "dark";
    try { localStorage.setItem(KEY, scheme); } catch { /* as above */ }
    show(scheme);
  });
  system.addEventListener("change", () => { if (!chosen()) show(system.matches ? "dark" : "light"); });
  addEventListener("storage", ({ key }) => { if (key === KEY && chosen()) show(chosen()); });
})();
