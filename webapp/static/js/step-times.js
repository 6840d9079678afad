// Step times: a histogram with percentiles, and a table by rank and phase.
import { colour, tooltip, valueScale } from "./chart-kit.js";
import { element } from "./dom.js";
import { alignedDuration, duration } from "./format.js";

const MOST_RANKS = 3; // slowest, middle and fastest; the rest is folded
const HEADS = ["p50", "p90", "p99", "Mean data wait"];

// Of a bin: with three digits, or as many as tell it from the next one.
function edge(seconds, width) {
  const digits = Math.min(Math.max(3, Math.ceil(Math.log10(seconds / width))), 6);
  return seconds < 1 ? `${Number((seconds * 1000).toPrecision(digits))} ms` : `${Number(seconds.toPrecision(digits))} s`;
}

export class StepTimes {
  constructor() {
    this.canvas = element("canvas", { role: "img", "aria-label": "Step times: loading" });
    this.count = element("span", { class: "quiet" });
    this.note = element("p", { class: "quiet small" });
    this.element = element(
      "section",
      { class: "panel chart", "data-histogram": "" },
      element("div", { class: "chart-head" }, element("h3", {}, "Step times"), element("div", { class: "chart-foot" }, this.count)),
      element("div", { class: "chart-area" }, this.canvas),
      this.note,
    );
  }

  // `nodes`: how many of a cluster's nodes the histogram is of; 0: of all.
  show(steps, nodes = 0) {
    Object.assign(this, { steps, nodes });
    this.element.hidden = !steps || !steps.bins.length;
    if (!this.element.hidden) this.draw();
  }

  draw() {
    if (this.element.hidden || !this.steps) return;
    const { bins } = this.steps;
    const total = bins.reduce((sum, [, , count]) => sum + count, 0);
    const names = bins.map(([from, to], index) => `${edge(from, to - from)} to ${edge(to, to - from)}${index === bins.length - 1 ? " or more" : ""}`);
    const data = { labels: bins.map(([from, to]) => edge(from, to - from)), datasets: [{ label: "steps", data: bins.map(([, , count]) => count), backgroundColor: colour("series-1"), categoryPercentage: 1, barPercentage: 0.94, maxBarThickness: 90 }] };
    const tip = tooltip("", () => "");
    tip.callbacks = { title: ([item]) => names[item.dataIndex], label: (item) => ` ${item.parsed.y.toLocaleString("en")} steps` };
    const font = { size: 11 };
    const x = { grid: { display: false }, ticks: { color: colour("quiet"), font, maxRotation: 0, autoSkipPadding: 12 } };
    const y = { ...valueScale("", undefined), ticks: { color: colour("quiet"), font, maxTicksLimit: 5, precision: 0 } };
    const options = { animation: false, maintainAspectRatio: false, scales: { x, y }, plugins: { legend: { display: false }, tooltip: tip } };
    this.chart?.destroy();
    this.chart = new Chart(this.canvas, { type: "bar", data, options });
    this.count.textContent = `${total.toLocaleString("en")} training steps${this.nodes ? ` of ${this.nodes} nodes` : ""}`;
    const most = bins.reduce((best, bin) => (bin[2] > best[2] ? bin : best));
    this.canvas.setAttribute("aria-label", `Step times: ${total} steps; most of them took ${duration(most[0])} to ${duration(most[1])}.`);
  }
}

function percentileTable(ranks, names) {
  const hasMany = Object.keys(names).length > 1;
  const head = element("tr", {}, element("th", { scope: "col" }, "Rank"), ...HEADS.map((words) => element("th", { scope: "col", class: "number" }, words)));
  const lines = ranks.map(({ node, rank, percentiles, wait, words }) => {
    const note = [words, hasMany ? names[node] : ""].filter(Boolean).join(", ");
    const title = element("th", { scope: "row" }, `Rank ${rank}`, ...(note ? [element("span", { class: "cell-note" }, note)] : []));
    return element("tr", {}, title, ...[...percentiles, wait].map((value) => element("td", { class: "number" }, alignedDuration(value))));
  });
  return element("div", { class: "table-scroll", tabindex: "0", role: "group", "aria-label": "Step times by rank" }, element("table", { class: "dense" }, element("thead", {}, head), element("tbody", {}, ...lines)));
}

function chosen(ranks) {
  if (ranks.length <= MOST_RANKS) return ranks;
  return [
    { ...ranks[0], words: "slowest" },
    { ...ranks[Math.floor(ranks.length / 2)], words: "middle" },
    { ...ranks.at(-1), words: "fastest" },
  ];
}

let isUnfolded = false;

// Fills the place in the section on time: percentiles of training steps, all ranks and other phases folded.
export function fillPercentiles(holder, steps, names) {
  if (!holder) return;
  const ranks = steps?.ranks || [];
  const training = ranks.filter(({ phase }) => phase === "train");
  holder.replaceChildren(...(training.length ? [percentileTable(chosen(training), names)] : []));
  const others = [...new Set(ranks.map(({ phase }) => phase))].filter((phase) => phase !== "train");
  if (training.length <= MOST_RANKS && !others.length) return;
  const parts = [["train", training], ...others.map((phase) => [phase, ranks.filter((each) => each.phase === phase)])];
  const tables = parts.filter(([, own]) => own.length).flatMap(([phase, own]) => [element("h3", { class: "small panel-body" }, phase[0].toUpperCase() + phase.slice(1)), percentileTable(own, names)]);
  const fold = element("details", { class: "fold-row" }, element("summary", {}, `All ranks and phases: ${ranks.length}`), ...tables);
  fold.open = isUnfolded;
  fold.addEventListener("toggle", () => (isUnfolded = fold.open));
  holder.append(fold);
}
