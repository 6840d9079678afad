// A job's page: cost over its runs, with levels, what was expected, and what changed when.
import { colour, followPaper, lineColour, onThemeChange, readJson, tooltip, valueScale } from "./chart-kit.js";
import { element } from "./dom.js";
import { costData, levelLines, markLines, regressionBand, runShapes } from "./history.js";
import { usd } from "./format.js";

const facts = readJson("job-history");
const root = document.querySelector("[data-job-history]");
const charts = [];
const OTHER = "not in a phase";
const PHASES = { train: 1, evaluate: 4, checkpoint: 2, initialise: 5, finalise: 3, [OTHER]: 0 };

// As many decimals as the distance between two ticks needs, and two at least: $0.20, $0.0005.
function decimals(ticks) {
  const step = ticks.length > 1 ? ticks[1].value - ticks[0].value : 1;
  return Math.min(Math.max(2, Math.ceil(-Math.log10(step) - 1e-9)), 9);
}

function options(points, lines, annotations) {
  const money = valueScale("", undefined);
  money.ticks.callback = (value, _, ticks) => (value === 0 ? "$0" : `$${value.toFixed(decimals(ticks))}`);
  const tip = { ...tooltip("", () => ""), filter: (item) => item.dataset.isTold };
  tip.callbacks = {
    title: ([item]) => (item ? `Run #${points[item.dataIndex].number}, ${points[item.dataIndex].date}, ${points[item.dataIndex].state.toLowerCase()}` : ""),
    label: (item) => lines(points[item.dataIndex], item),
  };
  return {
    animation: false,
    maintainAspectRatio: false,
    interaction: { mode: "index", intersect: false },
    // A touch shows the figures; the table below has the links.
    onClick: ({ native }, items) => items.length && native.pointerType !== "touch" && location.assign(points[items[0].index].address),
    layout: { padding: { top: 14 } },
    scales: {
      x: {
        type: "linear",
        min: -0.5,
        max: points.length - 0.5,
        grid: { display: false },
        border: { color: colour("line-strong") },
        offset: false,
        ticks: { color: colour("quiet"), font: { size: 12 }, maxRotation: 0, autoSkip: false, callback: (at) => `#${points[at].number}` },
        afterBuildTicks: (axis) => {
          const every = Math.ceil(points.length / Math.max(Math.floor(axis.width / 60), 2));
          axis.ticks = points.map((_, at) => ({ value: at })).filter(({ value }) => (points.length - 1 - value) % every === 0);
        },
      },
      y: money,
    },
    plugins: { legend: { display: false }, tooltip: tip, annotation: { annotations, clip: false } },
  };
}

// What a run cost, what was expected, and what moved.
function told(point) {
  const lines = [`${usd(point.usd)} per ${facts.per}${facts.per === "run" ? "" : `, ${usd(point.run_usd)} in all`}`];
  if (point.low !== null) lines.push(`expected ${usd(point.low)} to ${usd(point.high)}`);
  if (point.verdict) lines.push(point.verdict);
  return [...lines, ...point.moved.map((words) => `– ${words}`), ...point.marks.map(({ words }) => `◆ ${words}`)];
}

// Dots needn't begin at 0, but the range is wide enough that noise looks like noise.
function valueRange(points) {
  const known = points.flatMap(({ usd: cost, low, high }) => [cost, low, high]).filter((value) => value !== null);
  const [least, most] = [Math.min(...known), Math.max(...known)];
  const room = Math.max((most - least) * 0.15, most * 0.08);
  return least < most / 2 ? { min: 0, suggestedMax: most + room } : { suggestedMin: Math.max(least - room, 0), suggestedMax: most + room };
}

function drawCost(points) {
  const canvas = root.querySelector("[data-history=cost]");
  const annotations = [...regressionBand(points), ...levelLines(facts.levels, points), ...markLines(points)];
  const shown = options(points, told, annotations);
  shown.scales.y = { ...shown.scales.y, beginAtZero: false, ...valueRange(points) };
  charts.push(new Chart(canvas, { type: "line", data: { datasets: costData(points) }, options: shown }));
}

function phaseUsd(point, name) {
  if (name !== OTHER) return point.phases[name] || 0;
  const known = Object.values(point.phases).reduce((sum, value) => sum + value, 0);
  return point.run_usd === null ? 0 : Math.max(point.run_usd - known, 0);
}

function drawPhases(points) {
  const canvas = root.querySelector("[data-history=phases]");
  const names = Object.keys(PHASES).filter((name) => points.some((point) => phaseUsd(point, name) > 0.001 * (point.run_usd || 0)));
  const fill = (name) => (PHASES[name] ? lineColour(PHASES[name] - 1) : colour("line-strong"));
  const datasets = names.map((name) => ({
    label: name,
    isTold: true,
    data: points.map((point, x) => ({ x, y: point.run_usd === null ? null : phaseUsd(point, name) })),
    backgroundColor: fill(name),
    maxBarThickness: 30,
    categoryPercentage: 1,
    barPercentage: 0.8,
  }));
  const shown = options(points, (point, item) => ` ${item.dataset.label}: ${usd(item.parsed.y)}`, []);
  shown.plugins.tooltip.callbacks.footer = (items) => (items.length ? `${usd(points[items[0].dataIndex].run_usd)} in all` : "");
  shown.scales.x.stacked = true;
  shown.scales.y.stacked = true;
  shown.layout = {};
  charts.push(new Chart(canvas, { type: "bar", data: { datasets }, options: shown }));
  const legend = root.querySelector("[data-phase-legend]");
  legend.replaceChildren(...names.map((name) => {
    const key = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    key.setAttribute("viewBox", "0 0 10 10");
    key.setAttribute("aria-hidden", "true");
    key.innerHTML = `<rect class="phase-key-${PHASES[name]}" width="10" height="10" rx="2"/>`;
    return element("span", {}, key, name);
  }));
}

function draw() {
  while (charts.length) charts.pop().destroy();
  drawCost(facts.points);
  drawPhases(facts.points);
  root.querySelector("[data-history-legend]").replaceChildren(...runShapes(facts.points));
}

if (facts && root) {
  draw();
  onThemeChange(draw);
  followPaper(() => charts);
}
