// Every node of a run as one row, those that stand out first; a node unfolds into its GPUs.
import { element } from "./dom.js";
import { duration, inUnit } from "./format.js";
import { HeatMap } from "./heat-map.js";

const [SPREADS, TO_DEVIATION] = [3, 1.4826]; // as the charts tell outliers
const MOST_LISTED = 8;
const MEASURES = [
  { key: "busy", words: "busy", unit: "pct", least: () => 10 },
  { key: "step", words: "step", unit: "seconds", least: (middle) => 0.25 * middle },
  { key: "wait", words: "data wait", unit: "seconds", least: (middle) => Math.max(0.25 * middle, 0.005) },
];

const mean = (values) => {
  const known = values.filter((value) => value !== null && value !== undefined);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
};

function median(values) {
  const sorted = values.filter((value) => value !== null).sort((a, b) => a - b);
  return sorted.length ? (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2 : null;
}

const across = (rows, pick) => rows[0].values.map((_, at) => pick(rows.map(({ values }) => values[at]).filter((value) => value !== null && value !== undefined)));

export class ClusterMap extends HeatMap {
  // `nodes`: {names: key -> name, named: key -> titles of findings}; `pageOf`: key -> its page's address, or undefined.
  constructor(title, nodes, pageOf, csv) {
    super(title, "Node", nodes.names, csv);
    Object.assign(this, { nodes, pageOf, unfolded: new Set(), labelPx: 110 });
    this.listed = element("div", { class: "stand-out", "data-stand-out": "" });
    this.hint = element("p", { class: "quiet small" });
    this.holder.before(this.listed);
    this.holder.after(this.hint);
    this.element.dataset.heat = "node";
    this.canvas.addEventListener("click", ({ offsetX, offsetY }) => this.open(this.rowAt(offsetY), offsetX));
  }

  show(heat, from, to, ranks = []) {
    Object.assign(this, { heat, from, to });
    this.element.hidden = !heat?.rows.length;
    if (this.element.hidden) return;
    this.judge(ranks);
    this.blank.hidden = heat.rows.every(({ values }) => !values.includes(null));
    this.width.textContent = `1 column = ${inUnit(heat.step, "seconds")}`;
    this.hint.textContent = "A row is the mean of the node's GPUs. Click it to unfold them.";
    this.hint.hidden = this.found.every(({ rows }) => rows.length < 2);
    this.list();
    this.arrange();
  }

  // The nodes in order: named by a finding, then by how far they are from the others.
  judge(ranks) {
    const byNode = Map.groupBy(this.heat.rows, ({ node }) => node);
    const steps = Map.groupBy(ranks.filter(({ phase }) => phase === "train"), ({ node }) => node);
    this.found = [...byNode].map(([key, rows]) => ({
      key,
      rows,
      name: this.names[key] || key,
      named: this.nodes.named[key] || [],
      busy: mean(rows.map(({ values }) => mean(values))),
      step: mean((steps.get(key) || []).map((rank) => rank.mean)),
      wait: mean((steps.get(key) || []).map((rank) => rank.wait)),
    }));
    for (const measure of MEASURES) this.measure(measure);
    for (const node of this.found) {
      node.far = Math.max(...MEASURES.map(({ key }) => node[`${key}Far`]));
      node.isOut = node.named.length > 0 || node.far > 1;
    }
    // The others stay in the order of their numbers.
    this.found.sort((a, b) => b.isOut - a.isOut || (a.isOut && (Boolean(b.named.length) - Boolean(a.named.length) || b.far - a.far)) || 0);
  }

  measure({ key, least }) {
    const middle = median(this.found.map((node) => node[key]));
    const off = this.found.map((node) => (node[key] === null ? 0 : Math.abs(node[key] - middle)));
    const limit = Math.max(SPREADS * TO_DEVIATION * median(off), least(middle));
    this.found.forEach((node, at) => (node[`${key}Far`] = this.found.length > 2 && limit > 0 ? off[at] / limit : 0));
    this[`${key}Median`] = middle;
  }

  why(node) {
    const far = MEASURES.filter(({ key }) => node[`${key}Far`] > 1);
    const off = far.map(({ key, words, unit }) => `${words} ${inUnit(node[key], unit)}, median ${inUnit(this[`${key}Median`], unit)}`);
    return [...node.named, ...off].join("; ");
  }

  list() {
    const out = this.found.filter(({ isOut }) => isOut);
    const known = this.found.map(({ busy }) => busy).filter((busy) => busy !== null);
    const range = known.length ? `: ${inUnit(Math.min(...known), "pct")} to ${inUnit(Math.max(...known), "pct")} busy` : "";
    const rest = out.length > MOST_LISTED ? [element("p", { class: "quiet small" }, `${out.length - MOST_LISTED} more stand out; the table has all nodes.`)] : [];
    const none = element("p", { class: "quiet small" }, `None of ${this.found.length} nodes stands out${range}.`);
    this.listed.replaceChildren(...(out.length ? [element("div", { class: "table-scroll", tabindex: "0", role: "group", "aria-label": "Nodes that stand out" }, this.tableOf(out.slice(0, MOST_LISTED))), ...rest] : [none]));
    this.table.replaceChildren(this.tableOf(this.found));
  }

  tableOf(nodes) {
    const hasSteps = this.found.some(({ step }) => step !== null);
    const heads = ["Busy", ...(hasSteps ? ["Step", "Data wait"] : [])];
    const head = element("tr", {}, element("th", { scope: "col" }, "Node"), ...heads.map((words) => element("th", { scope: "col", class: "number" }, words)), element("th", { scope: "col" }, "Stands out by"));
    const lines = nodes.map((node) => {
      const figures = [inUnit(node.busy, "pct"), ...(hasSteps ? [duration(node.step), duration(node.wait)] : [])];
      const name = element("th", { scope: "row" }, this.pageOf(node.key) ? element("a", { href: this.pageOf(node.key) }, node.name) : node.name);
      return element("tr", {}, name, ...figures.map((words) => element("td", { class: "number" }, words)), element("td", {}, this.why(node)));
    });
    return element("table", { class: "dense" }, element("thead", {}, head), element("tbody", {}, ...lines));
  }

  // The rows to draw: of each node one, and those of its GPUs if it is unfolded.
  arrange() {
    const figures = (values) => ({ values, mean: mean(values), most: values.reduce((most, value) => (value !== null && !(value <= most) ? value : most), null) });
    this.rows = this.found.flatMap((node) => {
      const whole = { key: node.key, name: node.name, isOut: node.isOut, ...figures(across(node.rows, (values) => (values.length ? Math.round(mean(values)) : null))) };
      const parts = this.unfolded.has(node.key) ? node.rows.map((row) => ({ key: node.key, name: row.label, isPart: true, ...figures(row.values) })) : [];
      return [whole, ...parts];
    });
    this.canvas.setAttribute("aria-label", this.summary());
    this.draw();
  }

  open(row, x) {
    if (!row) return;
    if (x < this.labelPx && !row.isPart && this.pageOf(row.key)) location.href = this.pageOf(row.key);
    else {
      if (!this.unfolded.delete(row.key)) this.unfolded.add(row.key);
      this.arrange();
    }
  }

  rowPx(row) {
    const isLarge = row.isPart || row.isOut || this.unfolded.has(row.key) || this.found.length <= 32;
    return isLarge ? 12 : Math.max(2, Math.floor(400 / this.found.length));
  }

  // The nodes as small drawings: the mean of each node's GPUs, from the least to the most of them.
  drawings() {
    const { start, step } = this.heat;
    return this.found.map(({ key, rows }) => ({
      node: key,
      label: "Busy",
      start,
      step,
      mean: across(rows, (values) => mean(values)),
      min: across(rows, (values) => (values.length ? Math.min(...values) : null)),
      max: across(rows, (values) => (values.length ? Math.max(...values) : null)),
    }));
  }

  // A row for each GPU, as the picker of single lines offers them.
  get single() {
    return this.heat.rows.map((row) => ({ ...row, name: `${this.names[row.node]} ${row.label}` }));
  }
}
