/** Whether two candidates measured differently; a setting that is never reached changes nothing. */
function differs(row, other) {
  return row.metrics.some((value, index) => value !== other.metrics[index]);
}

const STATE = { shown: BEST, left: BEST, right: DATA.rows.find((row) => BEST && differs(row, BEST)) || BEST };

function open(number) {
  location.hash = `candidate-${number}`;
}

/** Follow the address: #candidate-12 opens one, #compare-12-15 two. */
function follow() {
  const one = /^#candidate-(\d+)$/.exec(location.hash);
  const two = /^#compare-(\d+)-(\d+)$/.exec(location.hash);
  if (one && BY_NUMBER.has(Number(one[1]))) {
    STATE.shown = BY_NUMBER.get(Number(one[1]));
    showCandidate(STATE.shown);
    drawTradeoff(open, STATE.shown);
    byId("candidate").scrollIntoView();
    byId("candidate-title").focus({ preventScroll: true });
  } else if (two && BY_NUMBER.has(Number(two[1])) && BY_NUMBER.has(Number(two[2]))) {
    STATE.left = BY_NUMBER.get(Number(two[1]));
    STATE.right = BY_NUMBER.get(Number(two[2]));
    showComparison(STATE.left, STATE.right);
    byId("compare").scrollIntoView();
    byId("compare-title").focus({ preventScroll: true });
  }
}

/** Draw what shows all candidates; panels draw their own plots. */
function drawOverview() {
  drawTradeoff(open, STATE.shown);
  drawHistory(open);
  drawImportance();
  drawParallel(open);
}

function drawAll() {
  drawOverview();
  drawLatencies("latency-plot", [STATE.shown]);
  drawInside(STATE.shown);
  drawLatencies("compare-plot", [STATE.left, STATE.right]);
}

function sortTable(head) {
  const heads = [...head.parentElement.children];
  const column = heads.indexOf(head);
  const up = head.getAttribute("aria-sort") !== "ascending";
  heads.forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const body = head.closest("table").tBodies[0];
  const key = (line) => {
    const cell = line.children[column];
    if (head.dataset.kind !== "number") return cell.textContent;
    return cell.dataset.value === "" ? Infinity : Number(cell.dataset.value);
  };
  const lines = [...body.rows].map((line) => [key(line), line]);
  lines.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0) * (up ? 1 : -1));
  body.append(...lines.map(([, line]) => line));
}

function filterTable() {
  const words = byId("candidates-filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const line of byId("candidates-table").tBodies[0].rows) {
    const text = line.children[2].textContent.toLowerCase();
    line.hidden = !words.every((word) => text.includes(word));
    shown += line.hidden ? 0 : 1;
  }
  byId("candidates-count").textContent = `${shown} of ${DATA.rows.length}`;
}

function wireControls() {
  const figures = DATA.figures.map((figure, index) => [index, figureTitle(figure)]);
  const indexOf = (name) => DATA.figures.findIndex((figure) => figure.name === name);
  const [x, y] = DATA.is_pareto && DATA.goal_figures > 1 ? [1, 0] : [indexOf("throughput_per_user"), indexOf(DATA.figures[0].name)];
  fillSelect(byId("tradeoff-x"), figures, x === y ? indexOf("throughput_per_gpu") : x);
  fillSelect(byId("tradeoff-y"), figures, y);
  fillSelect(byId("history-figure"), figures, 0);
  fillSelect(byId("knobs-figure"), figures, 0);
  const choices = DATA.rows.map((row) => [row.number, rowTitle(row)]);
  for (const id of ["candidate-choice", "compare-left", "compare-right"]) fillSelect(byId(id), choices);
  for (const id of ["tradeoff-x", "tradeoff-y"]) byId(id).addEventListener("change", () => drawTradeoff(open, STATE.shown));
  byId("history-figure").addEventListener("change", () => drawHistory(open));
  byId("knobs-figure").addEventListener("change", () => { drawImportance(); drawParallel(open); });
  byId("candidate-choice").addEventListener("change", (event) => open(event.target.value));
  const step = (by) => {
    const place = DATA.rows.indexOf(STATE.shown) + by;
    if (DATA.rows[place]) open(DATA.rows[place].number);
  };
  byId("candidate-previous").addEventListener("click", () => step(-1));
  byId("candidate-next").addEventListener("click", () => step(1));
  byId("candidate-compare").addEventListener("click", () => { location.hash = `compare-${BEST.number}-${STATE.shown.number}`; });
  for (const id of ["compare-left", "compare-right"]) {
    byId(id).addEventListener("change", () => { location.hash = `compare-${byId("compare-left").value}-${byId("compare-right").value}`; });
  }
  byId("candidates-filter").addEventListener("input", filterTable);
  byId("candidates-table").querySelectorAll("thead th").forEach((head) => head.querySelector("button").addEventListener("click", () => sortTable(head)));
}

function wireDownloads() {
  const name = DATA.run.name.replace(/[^\w.-]+/g, "_");
  byId("download-yaml").addEventListener("click", () => download(`${name}.yaml`, DATA.asked, "application/yaml"));
  if (!BEST) return;
  byId("download-csv").addEventListener("click", () => download(`${name}.csv`, csvText(), "text/csv"));
  byId("download-candidate").addEventListener("click", () => download(`${name}-${STATE.shown.number}.yaml`, yamlText(configOf(STATE.shown)), "application/yaml"));
  byId("download-launch").addEventListener("click", () => download(`${name}-${STATE.shown.number}.sh`, DATA.launches[STATE.shown.launch] + "\n", "text/x-shellscript"));
}

/** A live page asks its server whether the search went on, and loads itself again. */
function watch() {
  const seconds = 5;
  setInterval(async () => {
    if (document.hidden) return;
    const answer = await fetch("state").then((response) => response.json()).catch(() => null);
    if (answer && (answer.attempts !== DATA.run.attempts || answer.status !== DATA.run.status)) location.reload();
  }, seconds * 1000);
}

wireDownloads();
if (BEST) {
  wireControls();
  showCandidate(STATE.shown);
  showComparison(STATE.left, STATE.right);
  drawOverview();
  filterTable();
  follow();
  addEventListener("hashchange", follow);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  const redraw = (onPaper) => {
    printing = onPaper;
    drawAll();
    if (!onPaper) document.querySelectorAll(".plot").forEach((plot) => Plotly.Plots.resize(plot));
  };
  addEventListener("beforeprint", () => redraw(true));
  addEventListener("afterprint", () => redraw(false));
}
if (DATA.live) watch();
document.documentElement.dataset.ready = "yes";
