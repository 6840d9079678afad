// One chart on the page: its heading, legend, canvas, states, table and CSV link.
import { bandedLine, dash, gaps, hatchedGaps, lineOptions, MOST_LINES } from "./chart-kit.js";
import { element } from "./dom.js";
import { elapsed, inUnit } from "./format.js";

const EMPTY = {
  step: "No steps were recorded. Call trimtab.step() in the training loop, or wrap the loader with trimtab.wrap().",
  gpu: "No GPU samples. The agent reads them through the NVIDIA driver, which may be missing in this container.",
  gpu_memory: "No GPU samples. The agent reads them through the NVIDIA driver, which may be missing in this container.",
};
const EMPTY_IMPORT = {
  step: "The imported files have no steps.",
  gpu: "The imported files have no samples of GPU utilisation.",
  gpu_memory: "The imported files have no samples of GPU memory.",
};
const TABLE_ROWS = 60;
const MOST_BANDS = 2; // more bands than that hide one another

export class ChartPanel {
  // `spec`: {key, title, unit, highest}; `csv`: an address or null; `extras`: plugins and options.
  constructor(spec, { csv = null, plugins = [], extend = (options) => options, hasKeys = false } = {}) {
    Object.assign(this, { spec, csv, plugins, extend, chart: null, lines: [], picked: [], switchedOff: new Set() });
    this.canvas = element("canvas", { role: "img", "aria-label": `${spec.title}: loading` });
    this.state = element("p", { class: "chart-state" }, "Loading samples…");
    this.area = element("div", { class: "chart-area", "aria-busy": "true" }, this.canvas, this.state);
    if (hasKeys) for (const [name, value] of Object.entries({ tabindex: "0", role: "group", "aria-label": `${spec.title}: + and - zoom, arrow keys move, 0 shows everything` })) this.area.setAttribute(name, value);
    this.legend = element("div", { class: "legend" });
    this.table = element("div", { class: "chart-table", tabindex: "0", hidden: "" });
    this.foot = element("div", { class: "chart-foot", hidden: "" });
    this.element = element(
      "section",
      { class: "panel chart", "data-chart": spec.key },
      element("div", { class: "chart-head" }, element("h3", {}, spec.title), this.foot),
      this.area,
      this.legend,
      ...(spec.meaning ? [element("p", { class: "quiet small" }, spec.meaning)] : []),
      this.table,
    );
    this.fillFoot();
  }

  fillFoot() {
    const toggle = element("button", { class: "text-button", type: "button", "aria-expanded": "false", "aria-label": `Show as table: ${this.spec.title}` }, "Table");
    toggle.addEventListener("click", () => {
      this.table.hidden = !this.table.hidden;
      toggle.setAttribute("aria-expanded", String(!this.table.hidden));
      this.fillTable();
    });
    const picture = element("button", { class: "text-button", type: "button", "aria-label": `PNG: ${this.spec.title}` }, "PNG");
    picture.addEventListener("click", () => this.savePicture());
    this.foot.append(toggle);
    if (this.csv) this.foot.append((this.csvLink = element("a", { href: this.csv, download: "", "aria-label": `CSV: ${this.spec.title}` }, "CSV")));
    this.foot.append(picture);
  }

  // `lines`: [{label, series: {t, min, mean, max}}]; `from` and `to`: the ends of the axis; `hidden`: how many more there are.
  show(lines, from, to, title, hidden = 0) {
    Object.assign(this, { hidden, left: Math.max(lines.length - MOST_LINES, 0) });
    this.lines = lines.slice(0, MOST_LINES);
    Object.assign(this, { from, to, title });
    this.area.setAttribute("aria-busy", "false");
    this.state.hidden = this.lines.length > 0;
    this.foot.hidden = !this.lines.length;
    const isImported = document.querySelector("[data-run-charts][data-imported]") !== null;
    this.state.textContent = (isImported ? EMPTY_IMPORT : EMPTY)[this.spec.key] || (isImported ? "Not in the imported files." : "Not measured on this machine.");
    this.draw();
  }

  fail(message) {
    this.area.setAttribute("aria-busy", "false");
    if (this.lines.length) return;
    this.state.hidden = false;
    this.state.textContent = message;
  }

  // What is drawn: the given lines, and those that a person picked.
  get drawn() {
    return [...this.lines, ...this.picked].slice(0, MOST_LINES);
  }

  draw() {
    const { unit, highest } = this.spec;
    const datasets = this.drawn.flatMap(({ series, label, kind }, index) => {
      if (this.switchedOff.has(label)) return [];
      return bandedLine(series, label, index, kind === "rest" || this.drawn.length <= MOST_BANDS, kind);
    });
    const options = this.extend(lineOptions({ unit, highest, from: this.from, to: this.to, title: this.title }), this);
    if (this.chart) {
      this.chart.data.datasets = datasets;
      this.chart.options = options;
      this.chart.update("none");
    } else if (datasets.length && this.area.offsetParent) {
      // A folded chart has no size yet: it is drawn once it is unfolded.
      this.chart = new Chart(this.canvas, { type: "line", data: { datasets }, options, plugins: [hatchedGaps, ...this.plugins] });
    }
    this.canvas.setAttribute("aria-label", this.summary());
    this.fillLegend();
    if (!this.table.hidden) this.fillTable();
  }

  summary() {
    const { title, unit } = this.spec;
    const parts = this.drawn.map(({ label, series }) => {
      const means = series.mean.filter((value) => value !== null);
      const mean = means.reduce((sum, value) => sum + value, 0) / means.length;
      const highest = series.max.reduce((most, value) => (value > most ? value : most), -Infinity);
      return `${label}: mean ${inUnit(mean, unit)}, max ${inUnit(highest, unit)}`;
    });
    return parts.length ? `${title}. ${parts.join("; ")}.` : `${title}: no data.`;
  }

  fillLegend() {
    const items = this.drawn.map(({ label }, index) => {
      const key = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      key.setAttribute("viewBox", "0 0 18 8");
      key.setAttribute("aria-hidden", "true");
      key.innerHTML = `<path class="${this.drawn[index].kind === "idle" ? "series-idle" : `series-${index + 1}`}" d="M0 4h18" stroke-width="2" stroke-dasharray="${dash(index).join(" ") || "none"}"/>`;
      const button = element("button", { type: "button", class: "legend-item", "aria-pressed": String(!this.switchedOff.has(label)) }, key, label);
      button.addEventListener("click", () => this.toggle(label));
      return button;
    });
    this.legend.replaceChildren(...items);
    if (this.chart && gaps(this.chart).length) this.legend.append(element("span", {}, "hatched: no samples"));
    if (this.hidden) this.legend.append(element("span", {}, `${this.hidden} more node${this.hidden > 1 ? "s" : ""}: see Every node`));
    if (this.left) this.legend.append(element("span", {}, `${this.left} more line${this.left > 1 ? "s" : ""} in the CSV`));
  }

  toggle(label) {
    if (!this.switchedOff.delete(label)) this.switchedOff.add(label);
    this.draw();
    [...this.legend.querySelectorAll("button")].find((button) => button.textContent === label)?.focus();
  }

  // The chart on the colour of its panel, as a file.
  savePicture() {
    const copy = document.createElement("canvas");
    Object.assign(copy, { width: this.canvas.width, height: this.canvas.height });
    const ctx = copy.getContext("2d");
    ctx.fillStyle = getComputedStyle(this.element).backgroundColor;
    ctx.fillRect(0, 0, copy.width, copy.height);
    ctx.drawImage(this.canvas, 0, 0);
    const link = element("a", { href: copy.toDataURL("image/png"), download: `${this.spec.key}.png` });
    link.click();
  }

  fillTable() {
    if (this.table.hidden || !this.lines.length) return;
    const { unit } = this.spec;
    const head = element("tr", {}, element("th", { scope: "col" }, "Time"));
    for (const { label } of this.drawn) {
      for (const part of ["min", "mean", "max"]) head.append(element("th", { scope: "col", class: "number" }, `${label}, ${part}`));
    }
    const first = this.lines[0].series;
    const every = Math.max(Math.ceil(first.t.length / TABLE_ROWS), 1);
    const rows = first.t.filter((_, index) => index % every === 0).map((time) => this.tableRow(time, unit));
    const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
    this.table.replaceChildren(table);
  }

  tableRow(time, unit) {
    const row = element("tr", {}, element("th", { scope: "row" }, (this.title || elapsed)(time)));
    for (const { series } of this.drawn) {
      let at = series.t.findIndex((t) => t >= time);
      if (at < 0) at = series.t.length - 1;
      for (const values of [series.min, series.mean, series.max]) row.append(element("td", { class: "number" }, inUnit(values[at], unit)));
    }
    return row;
  }
}
