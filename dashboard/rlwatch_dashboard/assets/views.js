/* Links to another view of the same page: the page stays where it is scrolled to, and the link keeps the focus. */
(function () {
  "use strict";
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "";
  document.cookie = `rlwatch-zone=${encodeURIComponent(zone)}; path=/; SameSite=Strict; max-age=31536000`;

  document.addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest("a.view-link");
    if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    history.pushState(null, "", link.getAttribute("href"));
    window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
  });
})();
