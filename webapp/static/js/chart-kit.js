// What all charts share: colours of the theme, scales, the line that follows the pointer.
import { elapsed, inUnit } from "./format.js";

export const MOST_LINES = 6;
const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3], [1, 3], [10, 4]];
const NICE_SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800];

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export function lineColour(index) {
  return colour(`series-${(index % MOST_LINES) + 1}`);
}

export function dash(index) {
  return DASHES[index % DASHES.length];
}

const font = () => ({ family: getComputedStyle(document.body).fontFamily, size: 11 });

// A mean line in the band of its least and greatest values. A hole in the data stays a hole.
export function bandedLine(series, label, index, isBanded, kind = "plain") {
  const points = (values) => series.t.map((x, i) => ({ x, y: values[i] === null ? NaN : values[i] }));
  const line = kind === "idle" ? colour("worse") : lineColour(index);
  const edge = { borderWidth: 0, pointRadius: 0, pointHitRadius: 0, spanGaps: false, isEdge: true };
  const band = [
    { ...edge, label, data: points(series.min), fill: false },
    { ...edge, label, data: points(series.max), fill: "-1", backgroundColor: `${line}2b` },
  ];
  return [
    ...(isBanded ? band : []),
    {
      label,
      data: points(series.mean),
      borderColor: line,
      backgroundColor: line,
      borderWidth: kind === "idle" ? 2.4 : 1.6,
      borderDash: dash(index),
      pointRadius: 0,
      pointHitRadius: 6,
      spanGaps: false,
      fill: false,
      low: series.min,
      high: series.max,
    },
  ];
}

export function timeScale(from, to) {
  return {
    type: "linear",
    min: from,
    max: to,
    grid: { display: false },
    border: { color: colour("line-strong") },
    ticks: { color: colour("quiet"), font: font(), maxRotation: 0, callback: (value) => elapsed(value) },
    afterBuildTicks: (axis) => {
      const most = Math.max(Math.floor(axis.width / 70), 2);
      const step = NICE_SECONDS.find((nice) => (axis.max - axis.min) / nice <= most) || NICE_SECONDS.at(-1);
      axis.ticks = [];
      for (let value = Math.ceil(axis.min / step) * step; value <= axis.max; value += step) axis.ticks.push({ value });
    },
  };
}

export function valueScale(unit, highest) {
  const scale = {
    type: "linear",
    beginAtZero: true,
    grid: { color: colour("grid"), drawTicks: false },
    border: { display: false },
    ticks: {
      color: colour("quiet"),
      font: font(),
      maxTicksLimit: 5,
      padding: 6,
      callback: (value) => inUnit(value, unit),
    },
    afterFit: (axis) => {
      axis.width = 62;
    },
  };
  if (unit === "pct") return { ...scale, max: highest, ticks: { ...scale.ticks, stepSize: 25 } };
  if (!unit.startsWith("bytes")) return scale;
  return { ...scale, max: highest || undefined, afterBuildTicks: binaryTicks };
}

// Steps that are whole in KiB, MiB and GiB.
function binaryTicks(axis) {
  if (!(axis.max > 0)) return;
  const step = 2 ** Math.ceil(Math.log2(axis.max / 4));
  axis.ticks = [];
  for (let value = 0; value <= axis.max; value += step) axis.ticks.push({ value });
}

export function tooltip(unit, title) {
  return {
    filter: (item) => !item.dataset.isEdge,
    backgroundColor: colour("text"),
    titleColor: colour("surface"),
    bodyColor: colour("surface"),
    titleFont: { ...font(), weight: 600 },
    bodyFont: font(),
    padding: 8,
    cornerRadius: 4,
    usePointStyle: true,
    boxHeight: 6,
    callbacks: {
      title: (items) => (items.length ? title(items[0].parsed.x) : ""),
      label: (item) => tooltipLine(item, unit),
    },
  };
}

// An empty box beside the pointer, for charts that Chart.js doesn't draw.
export function tooltipBox() {
  const box = document.createElement("div");
  box.className = "chart-tip";
  box.hidden = true;
  return box;
}

function tooltipLine(item, unit) {
  const { dataset, dataIndex, parsed } = item;
  const value = inUnit(parsed.y, unit);
  const [low, high] = [dataset.low?.[dataIndex], dataset.high?.[dataIndex]];
  const isRange = low !== high && inUnit(low, unit) !== inUnit(high, unit);
  return isRange ? ` ${dataset.label}: ${value} (${inUnit(low, unit)} to ${inUnit(high, unit)})` : ` ${dataset.label}: ${value}`;
}

// A vertical line at the pointer, at the same place in every chart of the group.
export function crosshair(group) {
  const show = (x) => {
    for (const chart of group()) {
      if (chart.crosshairX === x) continue;
      chart.crosshairX = x;
      chart.draw();
    }
  };
  return {
    id: "crosshair",
    afterEvent: (chart, { event, inChartArea }) => {
      if (event.type === "mousemove" && inChartArea) show(chart.scales.x.getValueForPixel(event.x));
      if (event.type === "mouseout" || (event.type === "mousemove" && !inChartArea)) show(undefined);
    },
    afterDatasetsDraw: (chart) => {
      const x = chart.crosshairX;
      const { left, right, top, bottom } = chart.chartArea;
      const place = x === undefined ? -1 : chart.scales.x.getPixelForValue(x);
      if (place < left || place > right) return;
      const { ctx } = chart;
      ctx.save();
      ctx.strokeStyle = colour("line-strong");
      ctx.setLineDash([3, 3]);
      ctx.beginPath();
      ctx.moveTo(place, top);
      ctx.lineTo(place, bottom);
      ctx.stroke();
      ctx.restore();
    },
  };
}

// Where no line has a value nothing is known: hatched, so that it isn't read as zero.
export const hatchedGaps = {
  id: "hatchedGaps",
  beforeDatasetsDraw: (chart) => {
    const { ctx, chartArea, scales } = chart;
    ctx.save();
    ctx.beginPath();
    for (const [from, to] of gaps(chart)) {
      const left = Math.max(scales.x.getPixelForValue(from), chartArea.left);
      const right = Math.min(scales.x.getPixelForValue(to), chartArea.right);
      if (right - left > 3) ctx.rect(left, chartArea.top, right - left, chartArea.bottom - chartArea.top);
    }
    ctx.clip();
    ctx.strokeStyle = colour("line");
    ctx.lineWidth = 1;
    ctx.beginPath();
    const height = chartArea.bottom - chartArea.top;
    for (let x = chartArea.left - height; x < chartArea.right; x += 7) {
      ctx.moveTo(x, chartArea.bottom);
      ctx.lineTo(x + height, chartArea.top);
    }
    ctx.stroke();
    ctx.restore();
  },
};

export function gaps(chart) {
  const lines = chart.data.datasets.filter((dataset) => !dataset.isEdge && dataset.data.length > 1);
  if (!lines.length) return [];
  const holes = lines.map(({ data }) => holesOf(data));
  return holes[0].filter(([from, to]) => holes.every((others) => others.some(([a, b]) => a <= to && b >= from)));
}

function holesOf(data) {
  const holes = [];
  let last = data[0].x;
  let isHole = false;
  for (const { x, y } of data) {
    if (Number.isNaN(y)) isHole = true;
    else {
      if (isHole) holes.push([last, x]);
      [last, isHole] = [x, false];
    }
  }
  if (isHole) holes.push([last, data.at(-1).x]);
  return holes;
}

export function lineOptions({ unit, highest, from, to, title }) {
  return {
    animation: false,
    parsing: false,
    normalized: true,
    responsive: true,
    maintainAspectRatio: false,
    interaction: { mode: "index", intersect: false, axis: "x" },
    scales: { x: timeScale(from, to), y: valueScale(unit, highest) },
    plugins: { legend: { display: false }, tooltip: tooltip(unit, title || elapsed) },
  };
}

export function readJson(id) {
  const element = document.getElementById(id);
  return element ? JSON.parse(element.textContent) : null;
}

// Canvases don't follow the paper by themselves, and before they are printed the page still has the
// width of the window. So they are drawn about as wide as on A4 (700 px between its margins), and the
// style sheet fits them exactly.
const PAPER_WIDTH = 700;

export function followPaper(charts, redraw = () => {}) {
  window.addEventListener("beforeprint", () => {
    const narrower = Math.min(1, PAPER_WIDTH / document.getElementById("page").clientWidth);
    redraw();
    for (const chart of charts()) chart?.resize(Math.round(chart.width * narrower), chart.height);
  });
  window.addEventListener("afterprint", () => {
    for (const chart of charts()) chart?.resize();
    redraw();
  });
}

export function onThemeChange(draw) {
  document.addEventListener("themechange", draw);
}
