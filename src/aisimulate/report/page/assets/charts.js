const CONFIG = { displaylogo: false, responsive: true, displayModeBar: "hover",
  modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"] };

// Paper is narrower than the window that the plots were drawn for.
const PAPER_WIDTH = 680;
let printing = false;

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function axis(title, extra = {}) {
  return { title: { text: plain(title), font: { size: 13 } }, gridcolor: colour("grid"), linecolor: colour("line"),
    zerolinecolor: colour("line"), tickcolor: colour("line"), automargin: true, ...extra };
}

function layout(x, y, extra = {}) {
  return { paper_bgcolor: colour("back"), plot_bgcolor: colour("back"), margin: { l: 60, r: 16, t: 12, b: 50 },
    font: { color: colour("text"), family: getComputedStyle(document.body).fontFamily, size: 12 }, hovermode: "closest",
    hoverlabel: { align: "left", bgcolor: colour("panel"), bordercolor: colour("line"), font: { color: colour("text") } },
    showlegend: true, legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 }, xaxis: x, yaxis: y, ...extra };
}

function draw(id, traces, shape, onPoint) {
  const element = byId(id);
  const width = printing ? Math.min(PAPER_WIDTH, element.closest(".columns") ? PAPER_WIDTH / 2 : PAPER_WIDTH) : undefined;
  Plotly.react(element, traces, width ? { ...shape, width } : { ...shape, autosize: true }, CONFIG);
  if (element.removeAllListeners) element.removeAllListeners("plotly_click");
  if (onPoint) {
    element.on("plotly_click", (event) => {
      const number = event.points[0].customdata;
      if (number !== undefined && number !== null) onPoint(number);
    });
  }
}

function hoverOf(row) {
  const lines = [`<b>${plain(rowTitle(row))}</b>`];
  DATA.figures.slice(0, 8).forEach((figure, index) => {
    lines.push(`${plain(figureTitle(figure))}: ${numberText(row.figures[index], figure.unit)}`);
  });
  return lines.join("<br>");
}

/** The rows that no other beats on both axes, from left to right. */
function frontOf(rows, x, y) {
  const sign = (index) => (DATA.figures[index].better === "max" ? 1 : -1);
  const gains = (row) => [row.figures[x] * sign(x), row.figures[y] * sign(y)];
  const ordered = [...rows].sort((a, b) => gains(b)[0] - gains(a)[0] || gains(b)[1] - gains(a)[1]);
  const front = [];
  let best = -Infinity;
  for (const row of ordered) {
    if (gains(row)[1] > best) {
      front.push(row);
      best = gains(row)[1];
    }
  }
  return front.sort((a, b) => a.figures[x] - b.figures[x]);
}

function points(rows, x, y, look) {
  return { type: "scatter", x: rows.map((row) => row.figures[x]), y: rows.map((row) => row.figures[y]),
    customdata: rows.map((row) => row.number), text: rows.map(hoverOf), hovertemplate: "%{text}<extra></extra>", ...look };
}

function drawTradeoff(onPoint, chosen) {
  const [x, y] = [Number(byId("tradeoff-x").value), Number(byId("tradeoff-y").value)];
  const rows = DATA.rows.filter((row) => row.figures[x] !== null && row.figures[y] !== null);
  const front = frontOf(rows, x, y);
  const inFront = new Set(front);
  const behind = rows.filter((row) => !inFront.has(row));
  const traces = [
    points(behind, x, y, { mode: "markers", name: "beaten", marker: { color: colour("point"), size: 7, opacity: 0.75 } }),
    points(front, x, y, { mode: "lines+markers", name: "not beaten",
      line: { color: colour("front"), width: 2 }, marker: { color: colour("front"), size: 10, symbol: "diamond" } }),
  ];
  if (chosen) {
    traces.push(points([chosen], x, y, { mode: "markers", name: "shown below", hoverinfo: "skip", hovertemplate: null,
      marker: { size: 18, symbol: "circle-open", line: { width: 3 }, color: colour("text") } }));
  }
  const [across, up] = [DATA.figures[x], DATA.figures[y]];
  draw("tradeoff-plot", traces, layout(axis(figureTitle(across)), axis(figureTitle(up))), onPoint);
  byId("tradeoff-text").textContent = `${rows.length} candidates, ${front.length} of them not beaten on both axes.`;
}

function drawHistory(onPoint) {
  const index = Number(byId("history-figure").value);
  const figure = DATA.figures[index];
  const rows = DATA.rows.filter((row) => row.figures[index] !== null).sort((a, b) => a.number - b.number);
  const improvements = [];
  for (const row of rows) {
    const last = improvements.length ? improvements[improvements.length - 1].figures[index] : null;
    if (last === null || (figure.better === "max" ? row.figures[index] > last : row.figures[index] < last)) improvements.push(row);
  }
  const steps = [...improvements];
  const ends = rows.length ? [rows[rows.length - 1].number] : [];
  const found = new Set(DATA.rows.map((row) => row.number));
  const missed = [];
  for (let number = 1; number <= DATA.run.attempts; number += 1) if (!found.has(number)) missed.push(number);
  const traces = [
    { ...points(rows, index, index, { mode: "markers", name: "evaluation", marker: { color: colour("point"), size: 6 } }),
      x: rows.map((row) => row.number) },
    { type: "scatter", mode: "lines", name: "best so far", hoverinfo: "skip", line: { shape: "hv", color: colour("front"), width: 2 },
      x: [...steps.map((row) => row.number), ...ends],
      y: [...steps.map((row) => row.figures[index]), ...ends.map(() => steps[steps.length - 1].figures[index])] },
    { type: "scatter", mode: "markers", name: "no result, or repeated", showlegend: missed.length > 0, x: missed, y: missed.map(() => 0), yaxis: "y2", hoverinfo: "x",
      marker: { symbol: "line-ns-open", size: 8, color: colour("soft") } },
  ];
  draw("history-plot", traces, layout(axis("evaluation"), axis(figureTitle(figure)),
    { yaxis2: { overlaying: "y", range: [0, 1], visible: false } }), onPoint);
  byId("history-table").replaceChildren(table(`Improvements of: ${figureTitle(figure)}`, ["evaluation", "deployment", "value"],
    improvements.map((row) => make("tr", {}, make("td", {}, make("a", { href: `#candidate-${row.number}` }, String(row.number))),
      make("th", { scope: "row" }, row.label), make("td", {}, numberText(row.figures[index], figure.unit))))));
}

function drawImportance() {
  const index = Number(byId("knobs-figure").value);
  const rated = DATA.importance.map((row) => [row[0], row[1 + index]]).sort((a, b) => a[1] - b[1]).slice(-12);
  draw("importance-plot", [{ type: "bar", orientation: "h", x: rated.map((row) => row[1]), y: rated.map((row) => plain(row[0])),
    marker: { color: colour("accent") }, hovertemplate: "%{y}: %{x:.1%}<extra></extra>" }],
  layout(axis("share of the variance", { tickformat: ".0%", range: [0, 1] }), axis("", { type: "category" }), { showlegend: false }));
}

const MISSING = -0.1;

/** Places of the values of a knob on its axis from 0 to 1: numbers by size, texts by order. */
function scaleOf(values) {
  const known = values.filter((value) => value !== null && value !== undefined);
  if (known.every((value) => typeof value === "number")) {
    const low = Math.min(...known), high = Math.max(...known);
    const distinct = [...new Set(known)].sort((a, b) => a - b);
    const even = distinct.length <= 8;
    const place = (value) => {
      if (value === null || value === undefined) return MISSING;
      if (even) return distinct.length > 1 ? distinct.indexOf(value) / (distinct.length - 1) : 0.5;
      return (value - low) / (high - low || 1);
    };
    const marks = even ? distinct : [low, (low + high) / 2, high];
    const none = known.length < values.length ? [[MISSING, "none"]] : [];
    return { place, marks: [...none, ...marks.map((mark) => [even ? place(mark) : (mark - low) / (high - low || 1), numberText(mark)])] };
  }
  const texts = [...new Set(values.map((value) => numberText(value)))].sort();
  const place = (value) => (texts.length > 1 ? texts.indexOf(numberText(value)) / (texts.length - 1) : 0.5);
  return { place, marks: texts.map((text, index) => [texts.length > 1 ? index / (texts.length - 1) : 0.5, text]) };
}

/** Break a title into short lines. */
function brokenTitle(title) {
  const lines = [""];
  for (const word of title.split(/[_ ]/)) {
    if (lines[lines.length - 1].length + word.length > 12) lines.push("");
    lines[lines.length - 1] = `${lines[lines.length - 1]} ${plain(word)}`.trim();
  }
  return lines.filter(Boolean).join("<br>");
}

function drawParallel(onPoint) {
  const index = Number(byId("knobs-figure").value);
  const figure = DATA.figures[index];
  const rows = DATA.rows.filter((row) => row.figures[index] !== null);
  const ranked = [...DATA.importance].sort((a, b) => b[1 + index] - a[1 + index]).map((row) => row[0]);
  const names = ranked.filter((name) => DATA.config_names.includes(name) || name === "shape").slice(0, byId("parallel-plot").clientWidth < 600 ? 4 : 8);
  const columns = names.map((name) => (name === "shape" ? rows.map((row) => row.shape)
    : rows.map((row) => row.config[DATA.config_names.indexOf(name)])));
  columns.push(rows.map((row) => row.figures[index]));
  const titles = [...names, figure.title];
  const scales = columns.map(scaleOf);
  const order = rows.map((_, place) => place).sort((a, b) => (figure.better === "max" ? 1 : -1) * (rows[a].figures[index] - rows[b].figures[index]));
  const fifths = 5;
  const traces = [];
  for (let fifth = 0; fifth < fifths; fifth += 1) {
    const part = order.slice(Math.floor(order.length * fifth / fifths), Math.floor(order.length * (fifth + 1) / fifths));
    if (!part.length) continue;
    const trace = { type: "scatter", mode: "lines", x: [], y: [], customdata: [], text: [], hovertemplate: "%{text}<extra></extra>",
      name: ["lowest fifth", "", "", "", "best fifth"][fifth], showlegend: fifth === 0 || fifth === fifths - 1,
      opacity: 0.25 + 0.15 * fifth, line: { width: fifth === fifths - 1 ? 2 : 1, color: fifth === fifths - 1 ? colour("front") : colour("point") } };
    for (const place of part) {
      scales.forEach((scale, column) => {
        trace.x.push(column);
        trace.y.push(scale.place(columns[column][place]));
        trace.customdata.push(rows[place].number);
        trace.text.push(hoverOf(rows[place]));
      });
      trace.x.push(null); trace.y.push(null); trace.customdata.push(null); trace.text.push("");
    }
    traces.push(trace);
  }
  const annotations = [];
  scales.forEach((scale, column) => scale.marks.slice(0, 14).forEach(([y, text]) => annotations.push({ x: column, y, showarrow: false,
    text: plain(text.length > 18 ? text.slice(0, 17) + "\u2026" : text), font: { size: 11 }, bgcolor: colour("back"), opacity: 0.85,
    xanchor: column === scales.length - 1 ? "right" : "left" })));
  const shapes = scales.map((_, column) => ({ type: "line", x0: column, x1: column, y0: MISSING, y1: 1, line: { color: colour("line"), width: 1 } }));
  draw("parallel-plot", traces, layout(
    axis("", { tickvals: titles.map((_, column) => column), tickangle: 0, ticktext: titles.map(brokenTitle), zeroline: false, showgrid: false,
      range: [-0.3, titles.length - 0.6] }),
    axis("", { visible: false, range: [-0.16, 1.06] }), { annotations, shapes }), onPoint);
}

const INSIDE = [["running", "requests running"], ["waiting", "requests waiting"], ["held", "KV blocks held", "share"], ["workers", "workers"]];

function drawInside(row) {
  const inside = DATA.inside[row.number];
  if (!inside || !inside.at_s.length) return;
  const colours = [colour("accent"), colour("front"), colour("second"), colour("soft")];
  const traces = [];
  Object.entries(inside.pools).forEach(([pool, samples], which) => INSIDE.forEach(([name, title], index) => {
    traces.push({ type: "scatter", mode: "lines", name: `${pool}: ${title}`, x: inside.at_s, y: samples[name], line: { color: colours[index],
      width: 1.5, dash: which ? "dot" : "solid", shape: name === "workers" ? "hv" : "linear" }, yaxis: ["y", "y", "y2", "y3"][index] });
  }));
  draw("inside-plot", traces, layout(axis("seconds of the replay", { anchor: "y3" }), axis("requests", { domain: [0.5, 1], rangemode: "tozero" }), {
    yaxis2: axis("KV held", { domain: [0.24, 0.44], range: [0, 1], tickformat: ".0%" }),
    yaxis3: axis("workers", { domain: [0, 0.18], rangemode: "tozero" }) }));
}

const LATENCIES = [["ttft_ms", "time to first token"], ["tpot_ms", "inter-token, per request"], ["itl_ms", "inter-token, per gap"],
  ["e2e_latency_ms", "request latency"]];
const QUANTILES = [["min", 0], ["median", 0.5], ["p75", 0.75], ["p90", 0.9], ["p95", 0.95], ["p99", 0.99], ["max", 1]];

function quantilesOf(row, latency) {
  return QUANTILES.map(([name, share]) => [metricOf(row, `${name}_${latency}`), share]).filter(([value]) => value !== null && value !== undefined);
}

function drawLatencies(id, rows) {
  const colours = [colour("accent"), colour("front"), colour("second"), colour("soft")];
  const traces = [];
  rows.forEach((row, which) => LATENCIES.forEach(([latency, title], index) => {
    const percentiles = DATA.inside[row.number]?.percentiles[latency];
    const known = percentiles ? percentiles.map((value, percent) => [value, percent / 100]) : quantilesOf(row, latency);
    const found = known.filter(([value]) => value > 0);
    if (!found.length) return;
    traces.push({ type: "scatter", mode: percentiles ? "lines" : "lines+markers", x: found.map(([value]) => value), y: found.map(([, share]) => share),
      name: rows.length > 1 ? `${title}, ${row.number}` : title, line: { color: colours[index], dash: which ? "dash" : "solid", width: 2 },
      marker: { size: 5, symbol: which ? "square" : "circle" }, hovertemplate: "%{y:.0%} take at most %{x:,.1f} ms<extra></extra>" });
  }));
  draw(id, traces, layout(axis("ms, each mark 10 times the last", { type: "log", dtick: 1 }), axis("share of the samples", { tickformat: ".0%", range: [-0.02, 1.02] })));
}
