// Both runs in one chart each, aligned by progress or by time.
import { crosshair, followPaper, onThemeChange, readJson } from "./chart-kit.js";
import { ChartPanel } from "./chart-panel.js";
import { elapsed } from "./format.js";

const BUCKETS = 240;
const root = document.querySelector("[data-compare-charts]");
const facts = readJson("compare-chart");
const panels = [];
let answers = [];
let align = "progress";

const percent = (value) => `${Math.round(value)} % of the run`;

async function read(run, names) {
  if (!run.length_seconds) return [];
  const parameters = new URLSearchParams({ names: names.join(","), buckets: BUCKETS });
  const response = await fetch(`${run.address}?${parameters}`);
  if (!response.ok || response.redirected) throw new Error(`HTTP ${response.status}`);
  return (await response.json()).series;
}

// The same quantity of several nodes or GPUs as one: the mean, and the least and greatest of all.
function together(parts) {
  const [first, ...others] = parts;
  if (!others.length) return first;
  const at = (series, key, index) => {
    const value = series[key][Math.floor(((index + 0.5) * series.t.length) / first.t.length)];
    return value === null || value === undefined ? [] : [value];
  };
  const over = (key, join) => first.t.map((_, index) => {
    const known = parts.flatMap((series) => at(series, key, index));
    return known.length ? join(known) : null;
  });
  return {
    ...first,
    min: over("min", (values) => Math.min(...values)),
    mean: over("mean", (values) => values.reduce((sum, value) => sum + value, 0) / values.length),
    max: over("max", (values) => Math.max(...values)),
  };
}

function aligned(series, run) {
  if (align === "time") return series;
  return { ...series, t: series.t.map((t) => (100 * t) / run.length_seconds) };
}

function show() {
  const longest = Math.max(...facts.runs.map((run) => run.length_seconds));
  const end = align === "time" ? longest : 100;
  for (const panel of panels) {
    const names = new Set(panel.spec.lines.map((line) => line.name));
    const drawn = facts.runs.flatMap((run, index) => {
      const matching = answers[index].filter((series) => names.has(series.name));
      if (!matching.length) return [];
      const label = matching.length > 1 ? `${run.label}, mean of ${matching.length}` : run.label;
      return [{ label, series: aligned(together(matching), run) }];
    });
    panel.show(drawn, 0, end, align === "time" ? elapsed : percent);
    panel.element.hidden = !drawn.length;
  }
}

function inProgress(options) {
  if (align === "time") return options;
  options.scales.x.afterBuildTicks = (axis) => {
    axis.ticks = [0, 25, 50, 75, 100].map((value) => ({ value }));
  };
  options.scales.x.ticks.callback = (value) => `${value} %`;
  return options;
}

async function start() {
  const plugins = [crosshair(() => panels.map((panel) => panel.chart).filter(Boolean))];
  for (const spec of facts.charts) {
    const panel = new ChartPanel(spec, { plugins, extend: inProgress });
    panels.push(panel);
    root.querySelector("[data-charts]").append(panel.element);
  }
  const names = facts.charts.flatMap((chart) => chart.query);
  try {
    answers = await Promise.all(facts.runs.map((run) => read(run, names)));
    show();
  } catch (problem) {
    const error = root.querySelector("[data-chart-error]");
    error.hidden = false;
    error.textContent = `The samples could not be loaded (${problem.message}). Reload the page to retry.`;
    for (const panel of panels) panel.fail("No samples loaded.");
  }
}

for (const button of root.querySelectorAll("[data-align]")) {
  button.addEventListener("click", () => {
    align = button.dataset.align;
    for (const other of root.querySelectorAll("[data-align]")) other.setAttribute("aria-pressed", String(other === button));
    if (answers.length) show();
  });
}
const copy = document.querySelector("[data-copy-address]");
if (copy && navigator.clipboard) {
  copy.hidden = false;
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(location.href);
    copy.textContent = "Copied";
  });
}
onThemeChange(() => panels.forEach((panel) => panel.draw()));
followPaper(() => panels.map(({ chart }) => chart));
start();
