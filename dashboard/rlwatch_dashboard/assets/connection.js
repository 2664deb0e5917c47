/* Says so when the server does not answer any more: a page that only looks alive is worse than none. */
(function () {
  "use strict";
  const ask = window.fetch;
  let since = null;

  function show(answered) {
    if (answered === (since === null)) return;
    since = answered ? null : new Date();
    const box = document.getElementById("connection");
    if (!box) return;
    const time = since && new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" }).format(since);
    box.textContent = since ? `No answer from rlwatch dashboard since ${time}. What you see is as of then.` : "";
  }

  window.fetch = async (...request) => {
    const isOurs = String(request[0].url || request[0]).includes("_dash-update-component");
    try {
      const response = await ask(...request);
      if (isOurs) show(response.status < 500);
      return response;
    } catch (error) {
      if (isOurs) show(false);
      throw error;
    }
  };
})();
