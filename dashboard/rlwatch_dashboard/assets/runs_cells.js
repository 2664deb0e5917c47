/* What stands in the cells of the grid of runs. Everything that comes from a run goes in as text. */
(function () {
  "use strict";
  const runs = (window.rlwatchRuns = window.rlwatchRuns || {});
  const el = (...given) => window.React.createElement(...given);
  const WIDTH = 100;
  const HEIGHT = 24;
  const CURVES = { reward: ["Reward", "reward/mean"], entropy: ["Entropy", "entropy/mean"] };
  const absent = (words = "not recorded") => el("span", { className: "absent", title: words, "aria-label": words, role: "img" }, "–");

  // Curves

  /* Several lines as SVG paths on one scale: a number is a point, null a gap, false no point. */
  function drawing(lines) {
    const values = lines.flatMap((line) => line.y).filter((y) => typeof y === "number");
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const [from, to] = [Math.min(...lines.map((l) => l.x)), Math.max(...lines.map((l) => l.x + l.dx * (l.y.length - 1)))];
    const place = (step, y) => {
      const x = to > from ? ((step - from) / (to - from)) * (WIDTH - 4) + 2 : WIDTH / 2;
      const up = high > low ? (y - low) / (high - low) : 0.5;
      return `${x.toFixed(1)} ${(HEIGHT - 2 - up * (HEIGHT - 4)).toFixed(1)}`;
    };
    const path = (line) => {
      let pen = "M";
      let text = "";
      line.y.forEach((y, i) => {
        if (y === null) pen = "M";
        if (typeof y !== "number") return;
        text += pen + place(line.x + i * line.dx, y);
        if (pen === "M") text += "h0"; // a lone point is a dot: the ends of a line are round
        pen = "L";
      });
      return text;
    };
    return { paths: lines.map(path), low, high, isEmpty: !values.length };
  }

  const say = (number) => String(Number(number.toPrecision(3)));

  function inWords(label, lines, { low, high, isEmpty }) {
    const gaps = lines.some((line) => line.y.includes(null)) ? ", with gaps where it is no number" : "";
    if (isEmpty) return `${label}: no number in it`;
    const range = low === high ? `always ${say(low)}` : `between ${say(low)} and ${say(high)}`;
    if (lines.length > 1) return `${label} of ${lines.length} runs: ${range}${gaps}`;
    const own = lines[0].y.filter((y) => typeof y === "number");
    return `${label}: from ${say(own[0])} to ${say(own[own.length - 1])}, ${range}${gaps}`;
  }

  function curve(row, name) {
    const lines = row.lines[name];
    if (!lines || !lines.length) return null;
    const drawn = drawing(lines);
    const words = inWords(CURVES[name][0], lines, drawn);
    return el(
      "svg",
      {
        className: `sparkline of-${name}${lines.length > 1 ? " several" : ""}`, viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
        preserveAspectRatio: "none", role: "img", "aria-label": words,
      },
      el("title", null, words),
      ...drawn.paths.map((d, i) => el("path", { d, key: i })),
    );
  }

  // Cells

  function number(cell) {
    if (!cell) return absent();
    const strange = cell.strange ? ` · ${cell.strange} no number` : "";
    const range = cell.range ? el("small", { className: "absent" }, cell.range + strange) : null;
    const title = cell.range === undefined ? undefined : `median ${cell.text}, from ${cell.range}${strange}`;
    return el("span", { className: "number", title }, cell.text, range);
  }

  const withCurve = (row, name) => el("div", { className: "with-curve" }, curve(row, name), number(row[name]));

  function name(row) {
    if (row.kind === "run") {
      const follow = (event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || event.button !== 0) return;
        event.preventDefault();
        runs.go(row.href);
        window.scrollTo(0, 0);
      };
      return el("a", { className: "run-link", href: row.href, onClick: follow, title: row.name }, row.name);
    }
    const isOpen = runs.isOpen(row.id);
    return el(
      "button",
      { type: "button", className: "fold", "aria-expanded": isOpen, onClick: () => runs.toggle(row.id), title: row.name },
      el("span", { className: "arrow", "aria-hidden": true }, "▸"),
      el("span", { className: "words" }, row.name, " ", el("small", null, `${row.members.length} runs, ${row.seeds} seeds`)),
    );
  }

  function state(row) {
    const of = row.kind === "group" && row.of_state < row.members.length ? ` ${row.of_state} of ${row.members.length}` : "";
    return el("span", { className: `pill state-${row.state}` }, el("i", { className: "dot" }), row.state + of);
  }

  function alerts(row) {
    if (!row.alerts) return el("span", { className: "absent" }, "none");
    const pill = el("span", { className: `pill severity-${row.severity}` }, row.severity);
    const open = el("small", { className: "absent" }, `${row.alerts} open`);
    const words = row.kind === "group" ? row.answered : row.answered.split(" ")[0];
    const said = words ? el("span", { className: "pill answered", title: row.answered }, words) : null;
    return el("span", { className: "open-alerts" }, pill, " ", open, said && " ", said);
  }

  function moment(seconds, kind) {
    if (seconds === null) return absent("unknown");
    return el("time", { dateTime: new Date(seconds * 1000).toISOString(), className: kind });
  }

  const count = (steps) => steps.toLocaleString("en-US");
  function step(row) {
    if (row.step === null) return absent("no step yet");
    return el(
      "span", { className: "number" }, count(row.step),
      row.planned ? el("small", { className: "absent" }, `of ${count(row.planned)}`) : null,
    );
  }

  function pick(row) {
    const keys = row.kind === "group" ? row.members : [row.id];
    const chosen = keys.filter((key) => runs.isChosen(key)).length;
    return el("input", {
      type: "checkbox", checked: chosen === keys.length, "aria-label": `Compare ${row.name}`,
      ref: (box) => { if (box) box.indeterminate = chosen > 0 && chosen < keys.length; },
      onChange: (event) => runs.choose(keys, event.target.checked),
    });
  }

  const how = (row) => el("span", { className: `tone tone-${row.tone}`, title: row.how }, el("span", null, row.how));
  const seed = (row) => (row.kind === "group" ? el("small", { className: "absent" }, `${row.seeds} seeds`) : row.seed ?? absent("unknown"));

  const CELLS = {
    pick, name, state, how, step, alerts, seed,
    reward: (row) => withCurve(row, "reward"),
    entropy: (row) => withCurve(row, "entropy"),
    zero: (row) => number(row.zero),
    started: (row) => moment(row.started, "local"),
    seen: (row) => moment(row.seen, "relative"),
    root: (row) => el("span", { title: row.root, className: "root" }, row.root.split(/[/\\]/).pop() || row.root),
  };

  const RunCell = ({ data, column }) => (data ? CELLS[column.getColId()](data) : null);

  /* On a narrow page a row is a card, which says all of it. */
  function RunCard({ data: row }) {
    if (!row) return null;
    const part = (label, content) => el("div", { className: "fact", key: label }, el("span", { className: "label" }, label), content);
    const folder = row.root ? [part("Folder", CELLS.root(row))] : [];
    return el(
      "article", { className: "run-card" },
      el("div", { className: "head" }, pick(row), name(row), state(row)),
      how(row),
      el(
        "div", { className: "facts-of-run" },
        part("Reward", CELLS.reward(row)), part("Entropy", CELLS.entropy(row)), part("Zero-variance", CELLS.zero(row)),
        part("Step", step(row)), part("Alerts", alerts(row)), part("Last step", CELLS.seen(row)),
        part("Started", CELLS.started(row)), part("Seed", seed(row)), ...folder,
      ),
    );
  }

  window.dashAgGridComponentFunctions = Object.assign(window.dashAgGridComponentFunctions || {}, { RunCell, RunCard });
})();
