"use strict";
const DATA = JSON.parse(document.getElementById("page-data").textContent);
const byId = (id) => document.getElementById(id);
const BY_NUMBER = new Map(DATA.rows.map((row) => [row.number, row]));
const BEST = DATA.rows[0];

/** Make an element; texts become text nodes, so nothing in them is markup. */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Plotly reads some markup in its labels; take it away. */
function plain(text) {
  return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

function numberText(value, unit) {
  if (value === null || value === undefined) return "-";
  if (typeof value !== "number") return typeof value === "object" ? JSON.stringify(value) : String(value);
  if (unit === "share") return (value * 100).toFixed(1) + "%";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e15) return value.toLocaleString("en-US");
  if (size >= 10) return value.toLocaleString("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
  return String(Number(value.toPrecision(4)));
}

function figureTitle(figure) {
  return figure.unit === "share" ? figure.title : `${figure.title}, ${figure.unit}`;
}

function configOf(row) {
  const config = { ...DATA.config_same };
  DATA.config_names.forEach((name, index) => { config[name] = row.config[index]; });
  return config;
}

function metricOf(row, name) {
  const index = DATA.metric_names.indexOf(name);
  return index < 0 ? null : row.metrics[index];
}

function rowTitle(row) {
  return `${row.number}${row.place ? ` (place ${row.place})` : ""}: ${row.label}`;
}

function fillSelect(select, options, chosen) {
  select.replaceChildren(...options.map(([value, text]) => make("option", { value }, text)));
  if (chosen !== undefined) select.value = String(chosen);
}

function table(caption, heads, rows) {
  return make("table", {}, make("caption", {}, caption),
    make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))),
    make("tbody", {}, ...rows));
}

function download(name, text, type) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = make("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

function csvCell(value) {
  if (value === null || value === undefined) return "";
  let text = typeof value === "object" ? JSON.stringify(value) : String(value);
  if (typeof value === "string" && /^[=+@\-\t\r]/.test(text)) text = "'" + text;
  return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

function csvText() {
  const same = Object.keys(DATA.config_same);
  const heads = ["candidate", "place", "branch", "round", "deployment",
    ...DATA.config_names.map((name) => `config.${name}`), ...same.map((name) => `config.${name}`),
    ...DATA.metric_names.map((name) => `metrics.${name}`)];
  const lines = DATA.rows.map((row) => [row.number, row.place, row.branch, row.round, row.label, ...row.config,
    ...same.map((name) => DATA.config_same[name]), ...row.metrics].map(csvCell).join(","));
  return [heads.map(csvCell).join(","), ...lines, ""].join("\n");
}

/** Write a flat mapping as YAML; JSON's scalars and flow values are YAML too. */
function yamlText(values) {
  return Object.entries(values).filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]) => `${name}: ${JSON.stringify(value)}`).join("\n") + "\n";
}
