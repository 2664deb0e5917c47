/* What a view that is made anew must not take from the person at the keyboard: the place, and what is being typed.

   What had the focus is gone with the old view, so its successor gets it: the same field, or the link that is called the
   same. What was typed into a field after the way to the new view was taken is typed into its successor. */
(function () {
  "use strict";
  const nameOf = (element) => element.id || element.title || element.textContent;
  const setValue = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
  let last = null; // the element that had the focus, its name, and the page it was on
  const typed = new Map(); // a field's id: the field, and what was typed into it since the last way was taken

  document.addEventListener("focusin", ({ target }) => {
    const isOurs = target.closest("main") && document.querySelector(".sides");
    last = isOurs ? { element: target, name: nameOf(target), page: location.pathname } : null;
  });

  document.addEventListener("input", ({ target, isTrusted }) => {
    if (isTrusted && target.closest(".field")) typed.set(target.id, { element: target, value: target.value });
  });
  const onTheWay = ({ type, target, key }) => {
    if (type === "popstate" || (type === "click" ? target.closest("a, button") : key === "Enter")) typed.clear();
  };
  for (const type of ["click", "keydown", "popstate"]) addEventListener(type, onTheWay, true);

  function focusAgain() {
    if (!last || last.element.isConnected || document.activeElement !== document.body) return;
    if (last.page !== location.pathname) return;
    const all = [...document.querySelectorAll("main :is(a, input, button, [tabindex])")];
    const successor = all.find((element) => nameOf(element) === last.name);
    if (successor) successor.focus({ preventScroll: true });
  }

  function typeAgain() {
    for (const [id, { element, value }] of typed) {
      const successor = element.isConnected ? null : document.getElementById(id);
      if (!successor) continue;
      typed.set(id, { element: successor, value });
      if (successor.value === value) continue;
      setValue.call(successor, value); // as a key would: React hears of it, and the page on leaving the field
      successor.dispatchEvent(new Event("input", { bubbles: true }));
      successor.dispatchEvent(new FocusEvent("focusout", { bubbles: true }));
    }
  }

  new MutationObserver(() => {
    focusAgain();
    typeAgain();
  }).observe(document.documentElement, { childList: true, subtree: true });
})();
