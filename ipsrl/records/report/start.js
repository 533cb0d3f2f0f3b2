// What is drawn when.

// Colours and lines repeat after these; more groups than that are shown when they are asked for.
const FIRST_GROUPS = content.styles.length;

/** All that depends on the choice of runs, or on the colours of the page. */
function drawPlots() {
  for (const [input, runs] of boxes) {
    const count = runs.filter((run) => chosen.has(run)).length;
    input.checked = count > 0;
    input.indeterminate = count > 0 && count < runs.length;
  }
  if (filled().curves) drawCurves();
  if (filled().outcomes) drawOutcomes();
}

/** All that depends on the task. */
function drawTask() {
  navigation();
  if (!task) return;
  chosen.clear();
  for (const run of task.runs) if (run.group < FIRST_GROUPS) chosen.add(run);
  drawTable();
  drawChips();
  listMetrics();
  if (filled().outcomes) listOutcomes();
  drawPlots();
  if (filled().completions) drawCompletions();
  drawSettings();
}

byId("tasks").hidden = content.tasks.length < 2;
byId("task").append(...content.tasks.map(({ name }, number) => element("option", { value: number }, name)));
byId("task").onchange = () => {
  task = content.tasks[byId("task").value];
  drawTask();
};
for (const id of ["metric", "view", "logarithmic"]) byId(id).onchange = drawCurves;
byId("all").onclick = () => choose(task.runs, true);
byId("none").onclick = () => choose(task.runs, false);
byId("step").oninput = drawOutcomes;
byId("spread-group").onchange = drawSpread;
// The colours of the page change by themselves, those of plots do not.
for (const media of ["(prefers-color-scheme: dark)", "print"]) matchMedia(media).onchange = drawPlots;

lead();
figures();
claims();
paper();
warnings();
sayWhyEmpty();
reproduce();
notes();
drawTask();
