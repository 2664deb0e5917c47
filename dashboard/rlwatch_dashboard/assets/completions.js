/* Keeps the keyboard's place on the page of completions: a view is made anew, and what had the focus is gone with the old
   one, so its successor gets it: the same field, or the link that is called the same. */
(function () {
  "use strict";
  const nameOf = (element) => element.id || element.title || element.textContent;
  let last = null; // the element that had the focus, its name, and the page it was on

  document.addEventListener("focusin", ({ target }) => {
    const isOurs = target.closest("main") && document.querySelector(".sides");
    last = isOurs ? { element: target, name: nameOf(target), page: location.pathname } : null;
  });

  new MutationObserver(() => {
    if (!last || last.element.isConnected || document.activeElement !== document.body) return;
    if (last.page !== location.pathname) return;
    const all = [...document.querySelectorAll("main :is(a, input, button, [tabindex])")];
    const successor = all.find((element) => nameOf(element) === last.name);
    if (successor) successor.focus({ preventScroll: true });
  }).observe(document.documentElement, { childList: true, subtree: true });
})();
