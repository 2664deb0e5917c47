/* Sends what somebody answers to an alert, and has the page made anew, which then says it. A button holds what it says
   in `data-answer`, and in `data-number` which of it the field beside it gives; the section around it says where it is
   sent and which alert it is about. */
(function () {
  "use strict";
  const NAME = "rlwatch-name"; // under which this browser remembers who answers
  let sending = false;

  const box = () => document.getElementById("alert-result");
  const nameField = () => document.getElementById("alert-who");

  function say(text, isWrong) {
    const element = box();
    if (!element) return;
    element.textContent = text;
    element.classList.toggle("wrong", isWrong);
  }

  /* What a button says, or null where its field holds no number. */
  function answerOf(button, section) {
    const answer = { ...JSON.parse(section.dataset.answerAbout), ...JSON.parse(button.dataset.answer) };
    const who = nameField() ? nameField().value.trim() : "";
    if (who) answer.who = who;
    const wanted = button.dataset.number;
    if (!wanted) return answer;
    const text = button.closest(".answer-row").querySelector("input").value.trim().replace(/[\s,_]/g, "");
    const number = text === "" ? NaN : Number(text);
    if (!Number.isFinite(number) || (wanted === "until_step" && !Number.isInteger(number))) return null;
    return { ...answer, [wanted]: number };
  }

  function remember() {
    try {
      if (nameField()) localStorage.setItem(NAME, nameField().value.trim());
    } catch { /* storage may be forbidden */ }
  }

  async function send(button) {
    const section = button.closest("[data-answer-to]");
    if (!section || sending) return;
    const answer = answerOf(button, section);
    if (answer === null) {
      say("That is no number.", true);
      return;
    }
    sending = true;
    remember();
    say("…", false);
    try {
      const response = await fetch(section.dataset.answerTo, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(answer),
      });
      let said = "";
      try { said = (await response.json()).said; } catch { said = `the server answered ${response.status}`; }
      say(response.ok ? (answer.undo ? "Taken back." : `It is ${said}.`) : `Not written down: ${said}.`, !response.ok);
      if (response.ok) window.dash_clientside.set_props("alert-timer", { n_intervals: Date.now() });
    } catch {
      say("Not written down: rlwatch dashboard does not answer.", true);
    } finally {
      sending = false;
    }
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest ? event.target.closest("button[data-answer]") : null;
    if (button) send(button);
  });
  document.addEventListener("keydown", (event) => {
    const row = event.key === "Enter" && event.target.closest ? event.target.closest(".answer-row") : null;
    const button = row && event.target.tagName === "INPUT" ? row.querySelector("button[data-answer]") : null;
    if (button) send(button);
  });
})();
