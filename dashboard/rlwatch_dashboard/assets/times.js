/* Writes the words of every <time>: in the viewer's zone, or as how long ago. React leaves the inside of these alone. */
(function () {
  "use strict";
  const today = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
  const other = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
  const whole = new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeStyle: "long" });

  function ago(date) {
    const seconds = Math.max(0, (Date.now() - date) / 1000);
    if (seconds < 90) return `${Math.round(seconds)} s ago`;
    if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
    if (seconds < 129600) return `${Math.round(seconds / 3600)} h ago`;
    return `${Math.round(seconds / 86400)} days ago`;
  }

  function write(element) {
    const date = new Date(element.getAttribute("datetime"));
    const isToday = date.toDateString() === new Date().toDateString();
    const text = element.classList.contains("relative") ? ago(date) : (isToday ? today : other).format(date);
    if (element.textContent !== text) element.textContent = text;
    const title = whole.format(date);
    if (element.title !== title) element.title = title;
  }

  const writeAll = () => document.querySelectorAll("time[datetime]").forEach(write);
  let scheduled = false;
  const soon = () => {
    if (scheduled) return;
    scheduled = true;
    queueMicrotask(() => { scheduled = false; writeAll(); });
  };
  new MutationObserver(soon).observe(document.documentElement, {
    childList: true, subtree: true, attributes: true, attributeFilter: ["datetime"],
  });
  setInterval(writeAll, 1000);
})();
