// The charts of one run: zoom and crosshair in step, evidence as bands, new samples while it runs.
import { colour, crosshair, onThemeChange, readJson } from "./chart-kit.js";
import { ChartPanel } from "./chart-panel.js";
import { keepFresh } from "./live.js";

const root = document.querySelector("[data-run-charts]");
let facts = readJson("run-chart");
const panels = [];
const view = { from: 0, to: 0, isZoomed: false, shown: new Set() };

function buckets() {
  const width = panels[0]?.area.clientWidth || 600;
  return Math.min(Math.max(Math.round(width / 3), 100), 1000);
}

function query(path, more = {}) {
  return `${path}?${new URLSearchParams({ ...more, from: view.from, to: view.to, buckets: buckets() })}`;
}

const csv = (spec) => query(root.dataset.csv, { names: spec.query.join(",") });

function withEvidence(options, panel) {
  const boxes = facts.evidence.filter(({ rule }) => view.shown.has(rule));
  options.plugins.annotation = { annotations: boxes.flatMap(({ title, windows }) => windows.map((span) => band(span, title, panel))) };
  options.plugins.zoom = {
    zoom: {
      mode: "x",
      drag: { enabled: true, backgroundColor: `${colour("accent")}33`, borderColor: colour("accent"), borderWidth: 1, threshold: 8 },
      pinch: { enabled: true },
      wheel: { enabled: true, modifierKey: "ctrl" },
      onZoomComplete: ({ chart }) => zoomTo(chart.scales.x.min, chart.scales.x.max),
    },
  };
  return options;
}

function band([xMin, xMax], title, panel) {
  const label = { display: panel === panels[0] && view.shown.size > 1, content: title, position: { x: "start", y: "start" }, font: { size: 11 }, color: colour("text"), padding: 3 };
  return { type: "box", drawTime: "beforeDatasetsDraw", xMin, xMax, backgroundColor: colour("evidence"), borderColor: `${colour("evidence-edge")}88`, borderWidth: 1, borderDash: [2, 3], label };
}

let waiting;
function zoomTo(from, to) {
  if (from === view.from && to === view.to) return;
  Object.assign(view, { from: Math.max(from, 0), to: Math.min(to, facts.length_seconds), isZoomed: true });
  clearTimeout(waiting);
  waiting = setTimeout(load, 120);
}

function showAll() {
  Object.assign(view, { from: 0, to: facts.length_seconds, isZoomed: false });
}

async function load() {
  root.querySelector("[data-zoom-reset]").hidden = !view.isZoomed;
  root.querySelector("[data-zoom-hint]").hidden = view.isZoomed;
  const error = root.querySelector("[data-chart-error]");
  try {
    const response = await fetch(query(root.dataset.source), { headers: { Accept: "application/json" } });
    if (!response.ok || response.redirected) throw new Error(`HTTP ${response.status}`);
    show(await response.json());
    error.hidden = true;
  } catch (problem) {
    error.hidden = false;
    error.textContent = `The samples could not be loaded (${problem.message}). The charts show the last samples that were loaded. Reload the page to retry.`;
    for (const panel of panels) panel.fail("No samples loaded.");
  }
}

function show(answer) {
  const hasMany = Object.keys(facts.nodes).length > 1;
  for (const panel of panels) {
    const { lines, hidden } = answer.charts[panel.spec.key] || { lines: [], hidden: 0 };
    const named = lines.map(({ node, label, ...series }) => ({ label: hasMany ? `${facts.nodes[node]} ${label}` : label, series: withTimes(series) }));
    if (panel.csvLink) panel.csvLink.href = csv(panel.spec);
    panel.show(named, view.from, view.to, undefined, hidden);
  }
}

// The answer has one start and one step for the times of all values of a line.
function withTimes({ start, step, ...series }) {
  return { ...series, t: series.mean.map((_, index) => start + index * step) };
}

function evidenceButtons() {
  const holder = root.querySelector("[data-evidence]");
  const known = new Set([...holder.children].map((button) => button.dataset.rule));
  facts.evidence.forEach(({ rule, title }, index) => {
    if (known.has(rule)) return;
    if (index === 0 && !known.size) view.shown.add(rule);
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "button button-evidence", textContent: title });
    button.dataset.rule = rule;
    button.setAttribute("aria-pressed", String(view.shown.has(rule)));
    button.addEventListener("click", () => {
      if (!view.shown.delete(rule)) view.shown.add(rule);
      button.setAttribute("aria-pressed", String(view.shown.has(rule)));
      for (const panel of panels) panel.draw();
    });
    holder.append(button);
  });
}

function start() {
  showAll();
  const group = () => panels.map((panel) => panel.chart).filter(Boolean);
  const plugins = [crosshair(group)];
  for (const spec of facts.charts) {
    const panel = new ChartPanel(spec, { csv: csv(spec), plugins, extend: withEvidence });
    panels.push(panel);
    root.querySelector("[data-charts]").append(panel.element);
  }
  evidenceButtons();
  root.querySelector("[data-zoom-reset]").addEventListener("click", () => {
    showAll();
    load();
  });
  onThemeChange(() => panels.forEach((panel) => panel.draw()));
  load();
}

if (root) start();
keepFresh(() => {
  facts = readJson("run-chart");
  if (!root) {
    if (Object.keys(facts.nodes).length) location.reload();
    return;
  }
  evidenceButtons();
  if (!view.isZoomed) showAll();
  load();
});
