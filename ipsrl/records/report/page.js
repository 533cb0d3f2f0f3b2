"use strict";

// Everything but the plots: table, answers, warnings, settings. Texts of runs become text nodes, never HTML.

const content = JSON.parse(document.getElementById("content").textContent);
/** The task whose runs are shown: runs on different ones have different measures. */
let task = content.tasks[0];

const byId = (id) => document.getElementById(id);

/** A new element with attributes, or listeners where they are functions, and children: nodes, or texts. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value !== false && value !== null) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

/** A number as people read it. */
function shown(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e6) return String(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(1);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

function many(count, what) {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}

/** A metric's name for people: evaluation/pass_at_1 -> pass at 1. */
function readable(metric) {
  return metric.replace(/^evaluation\//, "").replaceAll("_", " ");
}

function runName(run) {
  const { label } = task.groups[run.group];
  return run.seed === null ? `${label}, ${run.path}` : `${label}, seed ${run.seed}`;
}

function plainTable(head, rows) {
  return element(
    "div",
    { class: "wide" },
    element(
      "table",
      {},
      element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name)))),
      element(
        "tbody",
        {},
        ...rows.map((cells) => element("tr", {}, ...cells.map((cell) => element("td", { class: "value" }, cell)))),
      ),
    ),
  );
}

// The table of results.

const FIRST_MEASURES = 8;

function cell(values) {
  if (!values) return element("td", {}, "–");
  const [mean, low, high, start] = values;
  const made = element("td", {}, mean === null ? "not finite" : shown(mean));
  if (low !== null) made.append(element("div", { class: "beside" }, `[${shown(low)}, ${shown(high)}]`));
  if (start !== null) made.append(element("div", { class: "beside" }, `before ${shown(start)}`));
  return made;
}

function ended(row) {
  if (row.complete === 0) return `${many(row.runs, "run")}, unfinished at step ${row.step}`;
  return row.complete === row.runs ? many(row.runs, "run") : `${row.complete} of ${row.runs} runs`;
}

function drawTable() {
  const { groups, rows } = task;
  // Each column: its head, what it sorts row i by, and the cell it has there.
  const columns = [
    { head: "objective", key: (i) => groups[i].objective, cell: (i) => element("td", {}, groups[i].objective) },
    ...task.telling.map((name) => {
      const value = (i) => groups[i].settings[name] ?? "–";
      return {
        head: name,
        key: (i) => (isNaN(value(i)) ? value(i) : Number(value(i))),
        cell: (i) => element("td", {}, value(i)),
      };
    }),
    { head: "finished", key: (i) => rows[i].complete, cell: (i) => element("td", {}, ended(rows[i])) },
    ...task.measures.map((name, number) => ({
      head: readable(name),
      hidden: number >= FIRST_MEASURES,
      key: (i) => rows[i].cells[name]?.[0] ?? null,
      cell: (i) => cell(rows[i].cells[name]),
    })),
  ];
  const order = rows.map((_, i) => i);
  let sorted = null;

  function sortBy(column) {
    const down = sorted?.column === column ? !sorted.down : typeof column.key(0) === "number";
    sorted = { column, down };
    order.sort((a, b) => {
      const [x, y] = [column.key(a), column.key(b)];
      if (x === null || y === null) return (x === null) - (y === null);
      const difference = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
      return down ? -difference : difference;
    });
    draw();
    // The button that had it is gone.
    byId("table").querySelector("[aria-sort] button").focus();
  }

  function draw() {
    const visible = columns.filter((column) => !column.hidden);
    const direction = (column) => (sorted?.column !== column ? null : sorted.down ? "descending" : "ascending");
    byId("table").replaceChildren(
      element(
        "thead",
        {},
        element(
          "tr",
          {},
          ...visible.map((column) =>
            element(
              "th",
              { scope: "col", "aria-sort": direction(column) },
              element("button", { type: "button", click: () => sortBy(column) }, column.head),
            ),
          ),
        ),
      ),
      element("tbody", {}, ...order.map((i) => element("tr", {}, ...visible.map((column) => column.cell(i))))),
    );
  }

  byId("columns").replaceChildren(
    ...columns.slice(1).map((column) =>
      element(
        "span",
        { class: "chip" },
        element(
          "label",
          {},
          element("input", {
            type: "checkbox",
            checked: !column.hidden,
            change: (event) => {
              column.hidden = !event.target.checked;
              draw();
            },
          }),
          column.head,
        ),
      ),
    ),
  );
  draw();
}

function claims() {
  byId("claim-list").append(
    ...content.claims.map(({ path, claim, holds }) =>
      element(
        "li",
        {},
        holds === null
          ? element("span", { class: "quiet" }, "undecided")
          : element("span", { class: holds ? "holds" : "fails" }, holds ? "holds" : "does not hold"),
        `: ${claim} `,
        element("span", { class: "quiet" }, path === "." ? "" : `(${path})`),
      ),
    ),
  );
}

/** Our numbers beside those of papers. */
function paper() {
  byId("paper").append(
    plainTable(
      ["", "here", "paper", "run"],
      content.paper.map(({ path, label, ours, paper }) => [label, ours, paper, path]),
    ),
  );
}

function figures() {
  byId("figures").append(
    ...content.figures.map(({ path, caption, png }) =>
      element(
        "figure",
        { class: "drawn" },
        element("img", { src: `data:image/png;base64,${png}`, alt: caption || path }),
        element("figcaption", {}, caption ? `${caption} ` : "", element("span", { class: "quiet" }, path)),
      ),
    ),
  );
}

// Answers before and after.

function answers(title, listed) {
  if (!listed.length) return [element("h3", {}, title), element("p", { class: "quiet" }, "There are none yet.")];
  const distinct = new Map();
  for (const answer of listed) {
    const key = JSON.stringify([answer.completion, answer.reward]);
    distinct.set(key, { ...answer, count: (distinct.get(key)?.count ?? 0) + 1 });
  }
  const outcomes = new Set(listed.filter((answer) => answer.reward > 0).map((answer) => answer.outcome));
  return [
    element("h3", {}, `${title}: step ${listed[0].step}`),
    element(
      "p",
      { class: "quiet" },
      `${many(outcomes.size, "rewarded outcome")} among ${many(listed.length, "answer")}`,
    ),
    ...[...distinct.values()].map((answer) =>
      element(
        "div",
        { class: "answer" },
        element(
          "div",
          { class: "quiet" },
          element("span", { class: answer.reward > 0 ? "holds" : "fails" }, `reward ${shown(answer.reward)}`),
          element("span", {}, `outcome: ${answer.outcome ?? "none"}`),
          answer.count > 1 ? element("span", {}, `${answer.count} times`) : "",
        ),
        element("pre", { class: "text" }, answer.completion || element("span", { class: "quiet" }, "nothing")),
      ),
    ),
  ];
}

function drawCompletions() {
  const runs = task.runs.filter((run) => run.completions.length);
  const chosenRun = () => runs[byId("run").value];

  function listPrompts() {
    const before = byId("prompt").value;
    const prompts = new Map(chosenRun().completions.map((answer) => [answer.prompt_index, answer.prompt]));
    byId("prompt").replaceChildren(
      ...[...prompts].map(([index, text]) =>
        element("option", { value: index }, `${index}: ${text.length > 60 ? `${text.slice(0, 60)} ...` : text}`),
      ),
    );
    if (prompts.has(before)) byId("prompt").value = before;
    draw();
  }

  function draw() {
    const listed = chosenRun().completions.filter((answer) => answer.prompt_index === byId("prompt").value);
    const steps = chosenRun().completions.map((answer) => answer.step);
    const [first, last] = [Math.min(...steps), Math.max(...steps)];
    byId("question").textContent = listed[0]?.prompt ?? "";
    byId("before").replaceChildren(
      ...answers(
        "Before",
        listed.filter((answer) => answer.step === first),
      ),
    );
    byId("after").replaceChildren(
      ...answers(
        "After",
        listed.filter((answer) => answer.step === last && last > first),
      ),
    );
  }

  byId("run").replaceChildren(...runs.map((run, number) => element("option", { value: number }, runName(run))));
  byId("run").onchange = listPrompts;
  byId("prompt").onchange = draw;
  listPrompts();
}

// What the runs were, and what they said.

function warnings() {
  const { count, listed } = content.warnings;
  if (!count) return;
  if (count > listed.length)
    byId("warnings").append(element("p", { class: "quiet" }, `The first ${listed.length} of ${count}.`));
  byId("warnings").append(
    plainTable(
      ["step", "warning", "monitor", "run"],
      listed.map(({ path, step, monitor, message }) => [String(step), message, monitor, path]),
    ),
  );
}

function drawSettings() {
  const differing = task.groups.map((group) => [
    group.label,
    ...task.differing.map((name) => group.settings[name] ?? "–"),
  ]);
  byId("asked").replaceChildren(
    ...(task.differing.length
      ? [element("h3", {}, "What differs"), plainTable(["runs", ...task.differing], differing)]
      : []),
    element(
      "details",
      {},
      element("summary", {}, "What all share"),
      plainTable(["setting", "value"], Object.entries(task.shared)),
    ),
  );
}

const PINNED = ["jax", "jaxlib", "flax", "optax", "orbax-checkpoint"];

/** The commands, after those that bring back the environment of most runs; and all environments. */
function reproduce() {
  const [most, ...others] = content.environments;
  const lines = [...content.commands];
  if (most) {
    const { git_commit: commit = "unknown", ...entries } = most.entries;
    const changed = commit.endsWith("-dirty") ? "  # with changes that were not committed" : "";
    lines.unshift(
      commit === "unknown" ? "# the commit is not known" : `git checkout ${commit.replace(/-dirty$/, "")}${changed}`,
      ["pip install", ...PINNED.filter((name) => entries[name]).map((name) => `${name}==${entries[name]}`)].join(" "),
    );
  }
  if (!content.commands.length) lines.push("# the commands were not kept; the settings are above");
  const names = [...new Set(content.environments.flatMap(({ entries }) => Object.keys(entries)))];
  byId("again").append(
    element("pre", { class: "text" }, lines.join("\n")),
    element(
      "details",
      { open: others.length > 0 },
      element("summary", {}, many(content.environments.length, "environment")),
      plainTable(
        ["", ...content.environments.map(({ starts }) => many(starts, "start"))],
        names.map((name) => [name, ...content.environments.map(({ entries }) => entries[name] ?? "–")]),
      ),
    ),
    ...content.changes.map(({ runs, diff }) =>
      element(
        "details",
        {},
        element("summary", {}, `changes that were not committed, in ${many(runs, "run folder")}`),
        element("pre", { class: "text" }, diff),
      ),
    ),
  );
}

function notes() {
  byId("note-list").append(...content.notes.map((note) => element("li", {}, note)));
}

function lead() {
  const [runs, complete] = [content.folders, content.complete];
  byId("lead").textContent =
    `${many(runs, "run folder")}, ${complete === runs ? "all finished" : `${complete} of them finished`}; ` +
    `written ${content.written} by ipsrl ${content.version}`;
}

/** Puts the reason in the place of what a section would show. */
function sayWhyEmpty() {
  for (const [section, reason] of Object.entries(content.empty)) {
    const heading = byId(section).querySelector("h2");
    for (const child of [...byId(section).children]) child.hidden = child !== heading;
    byId(section).append(element("p", { class: "quiet" }, reason));
  }
}

/** Which sections have something to show. */
function filled() {
  return {
    figures: content.figures.length > 0,
    paper: content.paper.length > 0,
    results: Boolean(task),
    curves: Boolean(task),
    settings: Boolean(task),
    claims: content.claims.length > 0,
    outcomes: Boolean(task?.runs.some((run) => run.outcomes)),
    completions: Boolean(task?.runs.some((run) => run.completions.length)),
    warnings: true,
    again: true,
    notes: content.notes.length > 0,
  };
}

function navigation() {
  const sections = [...document.querySelectorAll("main > section")];
  const shows = filled();
  for (const section of Object.keys(content.empty)) shows[section] = true;
  for (const section of sections) section.hidden = !shows[section.id];
  document
    .querySelector("nav")
    .replaceChildren(
      ...sections
        .filter((section) => shows[section.id])
        .map((section) => element("a", { href: `#${section.id}` }, section.querySelector("h2").textContent)),
    );
}
