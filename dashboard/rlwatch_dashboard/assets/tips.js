/* Shows what a label means on hover, keyboard focus and touch: one box for the whole page, filled from `data-tip`. */
(function () {
  "use strict";
  const GAP = 6; // pixels
  const box = document.createElement("div");
  box.id = "tip";
  box.setAttribute("role", "tooltip");
  box.hidden = true;
  let target = null;

  function hide() {
    if (target) target.removeAttribute("aria-describedby");
    target = null;
    box.hidden = true;
  }

  function show(element) {
    hide();
    target = element;
    target.setAttribute("aria-describedby", box.id);
    box.textContent = element.dataset.tip;
    box.hidden = false;
    document.body.append(box);
    const label = element.getBoundingClientRect();
    const left = Math.min(label.left, window.innerWidth - box.offsetWidth - GAP);
    const below = label.bottom + GAP;
    const fits = below + box.offsetHeight < window.innerHeight;
    box.style.left = `${Math.max(GAP, left)}px`;
    box.style.top = `${fits ? below : label.top - GAP - box.offsetHeight}px`;
  }

  const labelOf = (event) => (event.target.closest ? event.target.closest("[data-tip]") : null);
  for (const kind of ["mouseover", "focusin"]) {
    document.addEventListener(kind, (event) => {
      const label = labelOf(event);
      if (label && label !== target) show(label);
    });
  }
  for (const kind of ["mouseout", "focusout"]) {
    document.addEventListener(kind, (event) => labelOf(event) && hide());
  }
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  document.addEventListener("scroll", hide, { capture: true, passive: true });
})();
