/* The page's first content came as plain HTML, and with it the answers to the first questions that the scripts ask. Here
   they get those answers, and the first content goes when the page that the scripts make stands in its place. */
(function () {
  "use strict";
  const ask = window.fetch;
  const first = document.getElementById("first");
  const PATIENCE = 15000; // milliseconds for what is in the page to be drawn
  const JSON_HEADERS = { headers: { "Content-Type": "application/json" } };
  const given = (name) => document.querySelector(`script[data-first="${name}"]`);

  /* What was sent along, once; null where it is not what is asked for now. */
  function take(name) {
    const box = given(name);
    if (!box) return null;
    box.remove();
    return new Response(box.textContent, JSON_HEADERS);
  }

  function isPage(url, body) {
    return url.includes("_dash-update-component") && typeof body === "string" && body.includes('"output":"..page.children');
  }

  /* The page that was sent along is that of an address: another one has to be asked for. */
  function isOfHere(body) {
    const box = given("page");
    const [pathname, search] = JSON.parse(body).inputs.map((input) => input.value);
    return box && pathname === location.pathname && (search || "") === location.search
      && given("address").textContent === JSON.stringify([pathname, search || ""]);
  }

  /* Components that this page is made of, and whose script is not there yet. */
  async function parts(response) {
    const text = await response.clone().text();
    const names = ["dash_ag_grid", "dash_mantine_components"].filter((name) => text.includes(`"namespace":"${name}"`));
    if (text.includes('"type":"Graph"')) names.push("plotly");
    await Promise.all(names.map((name) => window.rlwatchPart(name)));
  }

  window.fetch = async (...request) => {
    const url = String(request[0].url || request[0]);
    const known = url.endsWith("_dash-layout") ? take("layout") : url.endsWith("_dash-dependencies") ? take("dependencies") : null;
    if (known) return known;
    const body = request[1] && request[1].body;
    if (!isPage(url, body)) return ask(...request);
    const response = (isOfHere(body) && take("page")) || (await ask(...request));
    await parts(response);
    return response;
  };

  if (!first) return;

  /* Whether what the first content shows is drawn. */
  function stands() {
    const page = document.getElementById("page");
    if (!page || !page.childElementCount) return false;
    if (page.querySelector("#runs:not(.none) #runs-grid")) return page.querySelector("#runs-grid .ag-row :is(.run-link, .fold)") !== null;
    return !page.querySelector("#run-charts") || window.rlwatch.all() !== null;
  }

  /* Who was at a link of the first content stays there. */
  function successorOf(element) {
    if (!first.contains(element) || !element.matches("a[href]")) return null;
    const href = element.getAttribute("href");
    const alike = [...document.querySelectorAll("#react-entry-point a[href]")].filter((one) => one.getAttribute("href") === href);
    return alike.find((one) => one.textContent === element.textContent) || alike[0] || null;
  }

  function leave() {
    watcher.disconnect();
    clearInterval(timer);
    const successor = successorOf(document.activeElement);
    first.remove();
    if (successor) successor.focus({ preventScroll: true });
    performance.mark("rlwatch-working");
  }

  const began = Date.now();
  const watcher = new MutationObserver(() => {
    if (stands()) leave();
  });
  watcher.observe(document.getElementById("react-entry-point"), { childList: true, subtree: true });
  const timer = setInterval(() => {
    const page = document.getElementById("page");
    if (page && page.childElementCount && (stands() || Date.now() - began > PATIENCE)) leave();
  }, 500);
})();
