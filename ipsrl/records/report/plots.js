// The look of all plots, the choice of runs, and the curves. Plotly reads a little HTML in its texts: see `literal`.

/** The runs of the task that are shown. */
const chosen = new Set();
/** Boxes to tick, each with the runs that it stands for. */
const boxes = [];

/** A text that Plotly shows as it is. */
function literal(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function styleOf(group) {
  const { color, dash } = content.styles[task.groups[group].style];
  // The first of our colours is black.
  return {
    color: color === "#000000" ? getComputedStyle(document.documentElement).getPropertyValue("--ink").trim() : color,
    dash,
  };
}

function faint(color) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
  return `rgba(${red},${green},${blue},0.16)`;
}

function layout(more) {
  const style = getComputedStyle(document.documentElement);
  const [ink, quiet, line, paper] = ["--ink", "--quiet", "--line", "--paper"].map((name) =>
    style.getPropertyValue(name).trim(),
  );
  const axis = { gridcolor: line, zerolinecolor: line, linecolor: quiet, tickcolor: quiet, automargin: true };
  const { xaxis, yaxis, ...rest } = more;
  return {
    // What is nearest is told, however far the pointer is from it.
    hoverdistance: -1,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: ink, size: 13, family: getComputedStyle(document.body).fontFamily },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: quiet, activecolor: ink },
    margin: { l: 56, r: 12, t: 28, b: 44 },
    showlegend: false,
    hoverlabel: { bgcolor: paper, bordercolor: line, font: { color: ink }, namelength: -1, align: "left" },
    xaxis: { ...axis, ...xaxis },
    yaxis: { ...axis, ...yaxis },
    ...rest,
  };
}

// By default Plotly offers to send the data to its makers.
const CONFIG = {
  showSendToCloud: false,
  plotlyServerURL: "",
  responsive: true,
  displaylogo: false,
  modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"],
};

function plot(id, traces, more) {
  Plotly.react(id, traces, layout(more), CONFIG);
}

/** For each group with runs that are shown: its number and these runs. */
function shownGroups() {
  const found = new Map();
  for (const run of task.runs.filter((run) => chosen.has(run)))
    found.set(run.group, [...(found.get(run.group) ?? []), run]);
  return [...found];
}

// Means over seeds.

const RESAMPLES = 400;

/** How often each of 400 resamples draws each of so many seeds, as shares; the same at every call. */
function resamples(seeds) {
  let state = 1;
  const random = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
  return Array.from({ length: RESAMPLES }, () => {
    const shares = new Float64Array(seeds);
    for (let draw = 0; draw < seeds; draw++) shares[Math.floor(random() * seeds)] += 1 / seeds;
    return shares;
  });
}

/** Mean and 95 % bootstrap interval of each point that all runs have; null where one of them is not finite. */
function overSeeds(curves) {
  const later = curves.slice(1).map(({ steps, values }) => new Map(steps.map((step, i) => [step, values[i]])));
  const draws = curves.length > 1 ? resamples(curves.length) : [];
  const result = { steps: [], mean: [], low: [], high: [] };
  const means = new Float64Array(RESAMPLES);
  curves[0].steps.forEach((step, i) => {
    if (!later.every((values) => values.has(step))) return;
    const seeds = [curves[0].values[i], ...later.map((values) => values.get(step))];
    const finite = !seeds.includes(null);
    result.steps.push(step);
    result.mean.push(finite ? seeds.reduce((sum, value) => sum + value / seeds.length, 0) : null);
    draws.forEach((shares, draw) => {
      means[draw] = shares.reduce((sum, share, seed) => sum + share * seeds[seed], 0);
    });
    means.sort();
    const bound = (share) => (finite && draws.length ? means[Math.round(share * (RESAMPLES - 1))] : null);
    result.low.push(bound(0.025));
    result.high.push(bound(0.975));
  });
  return result;
}

function curveOf(run, metric) {
  const found = run.curves[metric];
  return found && { steps: task.axes[found[0]], values: found[1] };
}

function mode(steps) {
  return steps.length <= 40 ? "lines+markers" : "lines";
}

function meanTraces([group, runs], metric) {
  const curves = runs.map((run) => curveOf(run, metric)).filter(Boolean);
  if (!curves.length) return [];
  const { steps, mean, low, high } = overSeeds(curves);
  const { color, dash } = styleOf(group);
  const label = literal(task.groups[group].label);
  const edge = { x: steps, mode: "lines", line: { width: 0 }, hoverinfo: "skip" };
  const band = low.some((bound) => bound !== null)
    ? [
        { ...edge, y: low },
        { ...edge, y: high, fill: "tonexty", fillcolor: faint(color) },
      ]
    : [];
  const interval = low.map((bound, i) => (bound === null ? "" : ` [${shown(bound)}, ${shown(high[i])}]`));
  return [
    ...band,
    {
      x: steps,
      y: mean,
      customdata: mean.map((value, i) => shown(value) + interval[i]),
      name: label,
      mode: mode(steps),
      line: { color, dash, width: 2 },
      marker: { color, size: 5 },
      hovertemplate: `${label}: %{customdata}<extra></extra>`,
    },
  ];
}

function seedTraces([group, runs], metric) {
  const { color, dash } = styleOf(group);
  return runs
    .map((run) => [run, curveOf(run, metric)])
    .filter(([, curve]) => curve)
    .map(([run, { steps, values }]) => ({
      x: steps,
      y: values,
      customdata: values.map(shown),
      name: literal(runName(run)),
      mode: mode(steps),
      opacity: 0.8,
      line: { color, dash, width: 1.3 },
      marker: { color, size: 4 },
      hovertemplate: `${literal(runName(run))}: %{customdata}<extra></extra>`,
    }));
}

function drawCurves() {
  const metric = byId("metric").value;
  const mean = byId("view").value === "mean";
  const traces = shownGroups().flatMap((group) => (mean ? meanTraces(group, metric) : seedTraces(group, metric)));
  plot("curve", traces, {
    // Zoom stays while the metric does.
    uirevision: `${task.name} ${metric}`,
    hovermode: mean ? "x unified" : "closest",
    xaxis: { title: { text: "step" } },
    yaxis: { title: { text: readable(metric) }, type: byId("logarithmic").checked ? "log" : "linear" },
  });
  const every = task.every[metric];
  byId("curve-note").textContent =
    (mean ? "Bands: 95 % bootstrap interval over the seeds shown, at the steps that all of them have. " : "") +
    (every > 1 ? `One in ${every} records is drawn. ` : "") +
    "Drag to zoom, double-click to see all.";
}

/** A piece of the line of a group. */
function swatch(group) {
  const { color, dash } = content.styles[task.groups[group].style];
  const pattern = { solid: "", dash: "6 3", dashdot: "6 3 2 3", dot: "2 3" }[dash] ?? dash.replaceAll("px", "");
  const drawn = (tag, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  };
  const stroke = color === "#000000" ? "var(--ink)" : color;
  const piece = drawn("svg", { width: 28, height: 10, "aria-hidden": true });
  piece.append(
    drawn("line", { x2: 28, y1: 5, y2: 5, style: `stroke: ${stroke}; stroke-width: 2.5`, "stroke-dasharray": pattern }),
  );
  return piece;
}

/** A chip for each group, and in it, where there are several, a box for each seed. */
function drawChips() {
  boxes.length = 0;
  const box = (runs, ...name) => {
    const input = element("input", { type: "checkbox", change: () => choose(runs, input.checked) });
    boxes.push([input, runs]);
    return element("label", {}, input, ...name);
  };
  byId("groups").replaceChildren(
    ...task.groups.map((group, number) => {
      const runs = task.runs.filter((run) => run.group === number);
      const seeds = element(
        "details",
        {},
        element("summary", {}, many(runs.length, "seed")),
        element(
          "div",
          { class: "choices" },
          ...runs.map((run) => box([run], run.seed === null ? run.path : String(run.seed))),
        ),
      );
      return element("span", { class: "chip" }, box(runs, swatch(number), group.label), runs.length > 1 ? seeds : "");
    }),
  );
}

function choose(runs, shows) {
  for (const run of runs) shows ? chosen.add(run) : chosen.delete(run);
  drawPlots();
}

// What these reports are about.
const FIRST_METRIC = "evaluation/effective_outcomes";

function listMetrics() {
  const before = byId("metric").value;
  const metrics = Object.keys(task.every);
  const [evaluation, training] = [true, false].map((evaluated) =>
    metrics.filter((metric) => metric.startsWith("evaluation/") === evaluated),
  );
  const options = (label, names) =>
    element(
      "optgroup",
      { label, hidden: !names.length },
      ...names.map((metric) => element("option", { value: metric }, readable(metric))),
    );
  byId("metric").replaceChildren(options("evaluation", evaluation), options("training", training));
  byId("metric").value = [before, FIRST_METRIC, ...metrics].find((metric) => metrics.includes(metric));
}
