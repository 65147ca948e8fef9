/** Texts of a plot may come from files of others: plotly reads some markup in them. */
function plainTexts(value) {
  if (Array.isArray(value)) return value.map((item) => (typeof item === "string" ? plain(item) : item));
  return typeof value === "string" ? plain(value) : value;
}

function coloured(trace) {
  const { colour: name, ...rest } = trace;
  const shown = { ...rest };
  for (const key of ["name", "text", "y", "x"]) if (key in shown) shown[key] = plainTexts(shown[key]);
  if (name === undefined) return shown;
  shown.marker = { ...shown.marker, color: colour(name) };
  if (shown.type === "scatter") shown.line = { ...shown.line, color: colour(name) };
  return shown;
}

function drawSheet() {
  for (const plot of DATA.plots) {
    draw(plot.name, plot.traces.map(coloured), layout(axis(plot.x_title, plot.x), axis(plot.y_title, plot.y), plot.extra));
  }
}

drawSheet();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawSheet);
const redrawSheet = (onPaper) => {
  printing = onPaper;
  drawSheet();
  if (!onPaper) document.querySelectorAll(".plot").forEach((plot) => Plotly.Plots.resize(plot));
};
addEventListener("beforeprint", () => redrawSheet(true));
addEventListener("afterprint", () => redrawSheet(false));
document.documentElement.dataset.ready = "yes";
