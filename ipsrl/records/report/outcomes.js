// How outcomes are spread: by rank at a step, and over the training.

const RANKS_APART = 8;

/** At a step the ranked shares of each run, as they were last known, and their mean over the runs. */
function sharesAt(runs, step) {
  const known = runs
    .filter((run) => run.outcomes && run.outcomes.steps[0] <= step)
    .map(({ outcomes }) => outcomes.shares[outcomes.steps.findLastIndex((at) => at <= step)]);
  const ranks = Math.max(0, ...known.map((shares) => shares.length));
  return Array.from({ length: known.length ? ranks : 0 }, (_, rank) =>
    known.reduce((sum, shares) => sum + (shares[rank] ?? 0) / known.length, 0),
  );
}

function outcomeSteps() {
  const steps = new Set(task.runs.flatMap((run) => run.outcomes?.steps ?? []));
  return [...steps].sort((a, b) => a - b);
}

function drawRanks() {
  const step = outcomeSteps()[byId("step").value];
  byId("step-shown").textContent = step;
  byId("ranks-caption").textContent = `Shares by rank at step ${step}`;
  const traces = shownGroups().map(([group, runs]) => {
    const shares = sharesAt(runs, step);
    const { color, dash } = styleOf(group);
    const label = literal(task.groups[group].label);
    return {
      x: shares.map((_, rank) => rank + 1),
      y: shares,
      customdata: shares.map(shown),
      name: label,
      mode: "lines+markers",
      line: { color, dash, width: 2 },
      marker: { color, size: 5 },
      hovertemplate: `${label}: %{customdata}<extra></extra>`,
    };
  });
  plot("ranks", traces, {
    hovermode: "x unified",
    xaxis: { title: { text: "rank of the outcome" }, rangemode: "tozero" },
    yaxis: { title: { text: "share" }, range: [0, 1] },
  });
}

/** The shares of one group over the training, stacked: a band for each of the first ranks, and one for all others. */
function drawSpread() {
  const group = Number(byId("spread-group").value);
  const runs = task.runs.filter((run) => run.group === group && run.outcomes && chosen.has(run));
  byId("spread-caption").textContent = `Shares over training: ${task.groups[group].label}`;
  // Where all of them have been evaluated.
  const steps = outcomeSteps().filter((step) => runs.length && runs.every((run) => run.outcomes.steps.includes(step)));
  const at = outcomeSteps()[byId("step").value];
  const shares = steps.map((step) => sharesAt(runs, step));
  const rest = steps.map((step) =>
    runs.reduce((sum, { outcomes }) => sum + outcomes.rest[outcomes.steps.indexOf(step)] / runs.length, 0),
  );
  const others = shares.map((ranked, i) => rest[i] + ranked.slice(RANKS_APART).reduce((sum, share) => sum + share, 0));
  const bands = Array.from({ length: RANKS_APART }, (_, rank) => [
    `rank ${rank + 1}`,
    shares.map((ranked) => ranked[rank] ?? 0),
  ]);
  const traces = [...bands, ["all others", others]].map(([name, y], rank) => ({
    x: steps,
    y,
    name,
    stackgroup: "shares",
    mode: "lines",
    line: { width: 0.5, color: "rgba(255,255,255,0.6)" },
    customdata: y.map(shown),
    // From blue to pale; the rest is grey.
    fillcolor: rank < RANKS_APART ? `hsl(202, ${90 - 4 * rank}%, ${30 + 6 * rank}%)` : "rgba(140,140,140,0.45)",
    hovertemplate: `${name}: %{customdata}<extra></extra>`,
  }));
  plot("spread", traces, {
    hovermode: "x unified",
    uirevision: `${task.name} ${group}`,
    xaxis: { title: { text: "step" } },
    yaxis: { title: { text: "share" }, range: [0, 1] },
    shapes:
      at <= steps.at(-1)
        ? [
            {
              type: "line",
              x0: at,
              x1: at,
              yref: "paper",
              y0: 0,
              y1: 1,
              line: { width: 1, dash: "dot", color: styleOf(0).color },
            },
          ]
        : [],
  });
}

function drawOutcomes() {
  drawRanks();
  drawSpread();
}

function listOutcomes() {
  byId("step").max = outcomeSteps().length - 1;
  byId("step").value = byId("step").max;
  const groups = new Set(task.runs.filter((run) => run.outcomes).map((run) => run.group));
  byId("spread-group").replaceChildren(
    ...[...groups].map((group) => element("option", { value: group }, task.groups[group].label)),
  );
}
