function figureRows(rows) {
  return DATA.figures.map((figure, index) => {
    const values = rows.map((row) => row.figures[index]);
    const cells = values.map((value) => make("td", {}, numberText(value, figure.unit)));
    if (rows.length === 2) {
      const [left, right] = values;
      const known = left !== null && right !== null;
      if (known && left !== right) {
        const leftWins = (left > right) === (figure.better === "max");
        cells[0].className = leftWins ? "better" : "worse";
        cells[1].className = leftWins ? "worse" : "better";
      }
      cells.push(make("td", {}, known && left ? `${right >= left ? "+" : ""}${(100 * (right - left) / Math.abs(left)).toFixed(1)}%` : "-"));
    }
    return make("tr", {}, make("th", { scope: "row" }, figureTitle(figure)), ...cells);
  });
}

function latencyTable(row) {
  const rows = LATENCIES.map(([latency, title]) => make("tr", {}, make("th", { scope: "row" }, title),
    ...QUANTILES.map(([name]) => make("td", {}, numberText(metricOf(row, `${name}_${latency}`))))));
  return table("Latencies in ms (exact percentiles of all samples)", ["latency", "least", "p50", "p75", "p90", "p95", "p99", "most"], rows);
}

function configTable(rows) {
  const varied = new Set(DATA.knobs);
  const configs = rows.map(configOf);
  const names = [...new Set(configs.flatMap((config) => Object.keys(config)))];
  const shown = names.filter((name) => configs.some((config) => config[name] !== null && config[name] !== undefined));
  const differs = (name) => JSON.stringify(configs[0][name]) !== JSON.stringify(configs[configs.length - 1][name]);
  const ordered = rows.length === 2 ? [...shown.filter(differs), ...shown.filter((name) => !differs(name))] : shown;
  const marked = rows.length === 2 ? differs : (name) => varied.has(name);
  return table(rows.length === 2 ? "Configuration; a dot marks what differs" : "Configuration; a dot marks what the search varied",
    ["field", ...rows.map((row) => `candidate ${row.number}`)],
    ordered.map((name) => make("tr", { class: marked(name) ? "varied" : null }, make("th", { scope: "row" }, name),
      ...configs.map((config) => make("td", { class: "text" }, config[name] === undefined || config[name] === null ? "-" : numberText(config[name]).replace(/,(?=\d{3})/g, ""))))));
}

function originText(row) {
  const config = configOf(row);
  const inside = DATA.inside[row.number];
  const origins = inside && inside.origins_text ? ` Its forwards were ${inside.origins_text}.` : "";
  return `Pass times of ${config.backend} ${config.backend_version || ""} on ${config.hardware_sku}: ${DATA.evidence["Pass times and memory"]}. ` +
    `Time of a mixed pass: ${DATA.evidence["Time of a mixed pass"]}. Programs: ${DATA.evidence.Programs}. Seed: ${DATA.evidence.Seed}.${origins}`;
}

/** What a second replay showed over time: plots, and their least, mean and most as a table. */
function insideParts(row) {
  const inside = DATA.inside[row.number];
  if (!inside) return [make("p", { class: "note" }, "`aisimulate report RUN --inside N` also shows the N best over time.")];
  const parts = [make("h3", {}, "Over time")];
  if (inside.note) parts.push(make("p", {}, inside.note));
  if (!inside.at_s.length) return parts;
  parts.push(make("div", { id: "inside-plot", class: "plot tall", role: "img", "aria-label": "Requests, KV blocks and workers over time; the table below sums them up" }));
  const rows = Object.entries(inside.pools).flatMap(([pool, samples]) => INSIDE.map(([name, title, unit]) => {
    const values = samples[name];
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    return make("tr", {}, make("th", { scope: "row" }, `${pool}: ${title}`), ...[Math.min(...values), mean, Math.max(...values)]
      .map((value) => make("td", {}, numberText(value, unit))));
  }));
  const workers = (counts) => Object.entries(counts).map(([pool, count]) => `${pool} ${count}`).join(", ");
  const decisions = inside.decisions.map((item) => make("tr", {}, make("td", {}, numberText(item.at_s)), make("th", { scope: "row" }, item.reason),
    make("td", {}, numberText(item.requests)), make("td", { class: "text" }, workers(item.before)), make("td", { class: "text" }, workers(item.after))));
  parts.push(scrolling("Over time", table(`${inside.at_s.length} samples over time`, ["of all workers", "least", "mean", "most"], rows)));
  if (decisions.length) {
    parts.push(make("details", { id: "decisions" }, make("summary", {}, `Decisions of the planner (${decisions.length})`), scrolling("Decisions of the planner",
      table("Decisions that changed a pool", ["at, s", "reason", "requests seen", "workers", "workers after"], decisions))));
  }
  return parts;
}

function scrolling(label, child) {
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, child);
}

function showCandidate(row) {
  byId("candidate-title").textContent = `Candidate ${row.number}${row.place ? `, place ${row.place}` : ""}`;
  byId("candidate-choice").value = String(row.number);
  const launch = DATA.launches[row.launch];
  byId("candidate-panel").replaceChildren(
    make("p", { class: "answer" }, row.label),
    make("div", { class: "columns" },
      make("div", {}, scrolling("Figures", table("Figures", ["figure", "value"], figureRows([row])))),
      make("div", {}, make("h3", {}, "Latencies"),
        make("div", { id: "latency-plot", class: "plot short", role: "img", "aria-label": "Distribution of latencies; the table below holds its numbers" }),
        scrolling("Latencies", latencyTable(row)))),
    make("h3", {}, "Launch"), launch ? make("pre", { id: "candidate-launch" }, launch) : make("p", {}, "There is no launch command for this engine."),
    ...insideParts(row),
    make("h3", {}, "Where its timing data came from"), make("p", { id: "candidate-origin" }, originText(row)),
    make("details", { open: "" }, make("summary", {}, "Configuration"), scrolling("Configuration", configTable([row]))),
    make("details", {}, make("summary", {}, "Every metric"), scrolling("Every metric", table("Every number of its report", ["metric", "value"],
      DATA.metric_names.map((name, index) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, numberText(row.metrics[index]))))))));
  drawLatencies("latency-plot", [row]);
  drawInside(row);
  document.querySelectorAll("#candidates-table tr.chosen").forEach((line) => line.classList.remove("chosen"));
  const line = document.querySelector(`#candidates-table tr[data-number="${row.number}"]`);
  if (line) line.classList.add("chosen");
}

function showComparison(left, right) {
  byId("compare-left").value = String(left.number);
  byId("compare-right").value = String(right.number);
  byId("compare-panel").replaceChildren(
    scrolling("Figures of both", table("Figures; the better one is bold",
      ["figure", `candidate ${left.number}`, `candidate ${right.number}`, "change"], figureRows([left, right]))),
    make("h3", {}, "Latencies"),
    make("div", { id: "compare-plot", class: "plot", role: "img", "aria-label": "Distributions of latencies of both candidates; their panels have the numbers" }),
    make("details", { open: "" }, make("summary", {}, "Configurations"), scrolling("Configurations of both", configTable([left, right]))));
  drawLatencies("compare-plot", [left, right]);
}
