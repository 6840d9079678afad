// The charts of one run: zoom and crosshair in step, evidence as bands, new samples while it runs.
import { axisOf, AXES } from "./axes.js";
import { colour, crosshair, followPaper, onThemeChange, readJson } from "./chart-kit.js";
import { ChartPanel } from "./chart-panel.js";
import { eventLines, evidenceBands } from "./evidence.js";
import { HeatMap } from "./heat-map.js";
import { ClusterMap } from "./cluster-map.js";
import { keepFresh } from "./live.js";
import { drawMultiples } from "./multiples.js";
import { drawPhases } from "./phases.js";
import { SeriesPicker } from "./series-picker.js";
import { fillPercentiles, StepTimes } from "./step-times.js";
import { change, readView, writeView } from "./view-address.js";

const root = document.querySelector("[data-run-charts]");
let facts = readJson("run-chart");
const panels = [];
const gpuPanels = []; // read once they are unfolded, a few at a time
const PANELS_AT_ONCE = 3;
const MOST_COLUMNS = 120; // of the heat map of a cluster
const view = { from: 0, to: 0, isZoomed: false, shown: new Set(), axis: "time" };
let heat, cores, times, last, whole, picker;

function buckets() {
  const width = panels[0]?.area.clientWidth || 600;
  return Math.min(Math.max(Math.round(width / 3), 100), 1000);
}

function query(path, more = {}) {
  const node = root.dataset.node ? { node: root.dataset.node } : {};
  return `${path}?${new URLSearchParams({ ...node, from: view.from, to: view.to, buckets: buckets(), ...more })}`;
}

const hasManyNodes = () => Object.keys(facts.nodes).length > 1;
const isCluster = () => Object.keys(facts.nodes).length > facts.charted.length;

const csv = (spec) => (root.dataset.csv ? query(root.dataset.csv, { names: spec.query.join(",") }) : null);

const shownEvidence = () => facts.evidence.filter(({ rule }) => view.shown.has(rule));

function withZoom(options) {
  options.plugins.annotation = { annotations: document.getElementById("events")?.open ? eventLines(facts.events) : [] };
  options.plugins.zoom = {
    zoom: {
      mode: "x",
      drag: { enabled: true, backgroundColor: `${colour("accent")}33`, borderColor: colour("accent"), borderWidth: 1, threshold: 8 },
      pinch: { enabled: true },
      wheel: { enabled: true, modifierKey: "ctrl" },
      onZoomComplete: ({ chart }) => zoomTo(chart.scales.x.min, chart.scales.x.max),
    },
  };
  const axis = axisOf(view.axis, facts, whole);
  options.scales.x.ticks.callback = (value) => axis(value);
  options.plugins.tooltip.callbacks.title = (items) => (items.length ? axis(items[0].parsed.x) : "");
  return options;
}

let waiting;
function zoomTo(from, to) {
  const [low, high] = [Math.max(from, 0), Math.min(to, facts.length_seconds)];
  if ((low === view.from && high === view.to) || high <= low) return;
  Object.assign(view, { from: low, to: high, isZoomed: low > 0 || high < facts.length_seconds });
  writeView(view);
  clearTimeout(waiting);
  waiting = setTimeout(load, 120);
}

function showAll() {
  Object.assign(view, { from: 0, to: facts.length_seconds, isZoomed: false });
}

async function fetched(address) {
  const response = await fetch(address, { headers: { Accept: "application/json" } });
  if (!response.ok || response.redirected) throw new Error(`HTTP ${response.status}`);
  return response.json();
}

async function load() {
  root.querySelector("[data-zoom-reset]").hidden = !view.isZoomed;
  root.querySelector("[data-zoom-hint]").hidden = view.isZoomed;
  const error = root.querySelector("[data-chart-error]");
  try {
    // Steps count from the run's start, of which an answer for a part knows nothing.
    if (view.isZoomed && !whole && view.axis !== "time") whole = await fetched(`${root.dataset.source}?buckets=${buckets()}`);
    await show(await fetched(query(root.dataset.source)));
    if (isCluster()) await loadNodes();
    if (root.querySelector("[data-cores]").open) await loadCores();
    if (root.querySelector("[data-gpu-panels]")?.open) await loadPanels();
    error.hidden = true;
  } catch (problem) {
    error.hidden = false;
    error.textContent = `The samples could not be loaded (${problem.message}). The charts show the last samples that were loaded. Reload the page to retry.`;
    for (const panel of panels) panel.fail("No samples loaded.");
  }
}

// Every node of a run with more than charts read, some of them at a time.
async function loadNodes() {
  const [wanted, rows, ranks] = [`${view.from}:${view.to}`, [], []];
  for (let first = 0; first !== null; ) {
    const part = await fetched(query(root.dataset.source, { first, buckets: Math.min(buckets(), MOST_COLUMNS) }));
    if (wanted !== `${view.from}:${view.to}`) return;
    rows.push(...(part.heat?.rows || []));
    ranks.push(...part.ranks);
    first = part.next;
    if (first === null) showNodes(part.heat && { ...part.heat, rows }, ranks);
  }
}

function showNodes(found, ranks) {
  heat.show(found, view.from, view.to, ranks);
  if (found) {
    picker?.offer(heat.single, found);
    drawPicked();
    drawMultiples(root.querySelector("[data-multiples]"), heat.drawings(), facts.nodes, view);
  }
  const byMean = ranks.sort((a, b) => (b.phase === "train") - (a.phase === "train") || a.phase.localeCompare(b.phase) || b.mean - a.mean);
  last = { ...last, steps: byMean.length ? { ...last.steps, ranks: byMean } : last.steps };
  fillTime();
}

async function loadPanels() {
  for (let at = 0; at < gpuPanels.length; at += PANELS_AT_ONCE) {
    const part = gpuPanels.slice(at, at + PANELS_AT_ONCE);
    const { charts } = await fetched(query(root.dataset.source, { panels: part.map(({ spec }) => spec.key).join(",") }));
    for (const panel of part) {
      const lines = named(charts[panel.spec.key]?.lines || []);
      panel.element.hidden = !lines.length;
      panel.show(lines, view.from, view.to);
    }
  }
  root.querySelector("[data-no-panels]").hidden = gpuPanels.some(({ element }) => !element.hidden);
}

async function loadCores() {
  const { heat: found } = await fetched(query(root.dataset.source, { cores: "1" }));
  cores.show(found, view.from, view.to);
  root.querySelector("[data-no-cores]").hidden = Boolean(found);
}

// Until the browser has drawn a frame; one that nobody looks at draws none.
const painted = () => new Promise((resolve) => (document.hidden ? resolve() : requestAnimationFrame(() => setTimeout(resolve))));

async function show(answer) {
  last = answer;
  if (!view.isZoomed) whole = answer;
  hideReplaced(answer.charts);
  for (const panel of panels) {
    const { lines } = answer.charts[panel.spec.key] || { lines: [] };
    if (panel.csvLink) panel.csvLink.href = csv(panel.spec);
    const isFirst = !panels.some(({ chart }) => chart);
    panel.show(named(lines), view.from, view.to, undefined, Object.keys(facts.nodes).length - facts.charted.length);
    // A person sees the first chart while the others are drawn.
    if (isFirst && panel.chart) await painted();
    if (last !== answer) return;
  }
  times.element.classList.toggle("chart-wide", isCluster() || !answer.heat);
  heat.element.classList.toggle("chart-wide", isCluster());
  times.show(answer.steps, isCluster() ? facts.charted.length : 0);
  if (isCluster()) return;
  heat.show(answer.heat, view.from, view.to, answer.steps?.ranks);
  if (answer.heat) picker?.offer(heat.single, answer.heat);
  drawPicked();
  drawMultiples(root.querySelector("[data-multiples]"), answer.nodes, facts.nodes, view);
  fillTime();
}

// The lines with the names of their nodes, where there are several.
const named = (lines) => lines.map(({ node, label, kind, ...series }) => ({ label: hasManyNodes() && node ? `${facts.nodes[node]} ${label}` : label, kind, series: withTimes(series) }));

// The section on time is replaced while a run changes.
function fillTime() {
  fillPercentiles(document.querySelector("[data-percentiles]"), last.steps, facts.nodes);
  drawPhases(document.querySelector("[data-phases]"), last.phases, view);
}

// Beside the lines that stand for many, those that a person picked.
function drawPicked() {
  const panel = panels.find(({ spec }) => spec.key === "gpu");
  if (!panel || !picker) return;
  panel.picked = picker.lines();
  panel.draw();
}

// The answer has one start and one step for the times of all values of a line.
function withTimes({ start, step, ...series }) {
  return { ...series, t: series.mean.map((_, index) => start + index * step) };
}

const redraw = () => [...panels, ...gpuPanels].forEach((panel) => panel.draw());

function press(rules) {
  view.shown = rules;
  for (const button of root.querySelectorAll("[data-evidence] button")) button.setAttribute("aria-pressed", String(rules.has(button.dataset.rule)));
  writeView(view);
  redraw();
}

function evidenceButtons() {
  const holder = root.querySelector("[data-evidence]");
  const known = new Set([...holder.children].map((button) => button.dataset.rule));
  for (const { rule, title } of facts.evidence) {
    if (known.has(rule)) continue;
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "button button-evidence", textContent: title });
    button.dataset.rule = rule;
    button.setAttribute("aria-pressed", String(view.shown.has(rule)));
    button.addEventListener("click", () => press(view.shown.has(rule) ? new Set() : new Set([rule])));
    holder.append(button);
  }
}

function axisButtons() {
  const holder = root.querySelector("[data-axis]");
  for (const [name, title] of Object.entries(AXES)) {
    if (name === "dollars" && !facts.usd) continue;
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "button", textContent: title });
    button.setAttribute("aria-pressed", String(view.axis === name));
    button.addEventListener("click", () => {
      view.axis = name;
      for (const each of holder.children) each.setAttribute("aria-pressed", String(each === button));
      writeView(view);
      if (view.isZoomed && !whole) load();
      else redraw();
    });
    holder.append(button);
  }
}

// A chart that may replace another is shown if it has lines. The other one stays if a node has its series.
function hideReplaced(drawn) {
  const isDrawn = (key) => Boolean(drawn[key]?.lines.length);
  for (const { spec, element } of panels.filter((panel) => panel.spec.instead_of)) {
    element.hidden = !isDrawn(spec.key);
    panels.find((panel) => panel.spec.key === spec.instead_of).element.hidden = !element.hidden && !isDrawn(spec.instead_of);
  }
  const folded = panels.filter((panel) => panel.spec.is_folded && !panel.element.hidden);
  root.querySelector("[data-more-charts] summary").textContent = folded.map((panel) => panel.spec.title).join(", ");
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || !event.target.matches(".chart-area")) return;
  const changed = change(event.key, view, facts.length_seconds);
  if (!changed) return;
  event.preventDefault();
  zoomTo(...changed);
}

function addPanels() {
  const group = () => [...panels, ...gpuPanels].map((panel) => panel.chart).filter(Boolean);
  const inStep = crosshair(group);
  const [main, folded, ofGpus] = ["[data-charts]", "[data-charts-folded]", "[data-charts-gpu]"].map((name) => root.querySelector(name));
  for (const spec of facts.charts) {
    const plugins = [inStep, evidenceBands(shownEvidence, !panels.length)];
    const panel = new ChartPanel(spec, { csv: csv(spec), plugins, extend: withZoom, hasKeys: true });
    (spec.is_panel ? gpuPanels : panels).push(panel);
    (spec.is_panel ? ofGpus : spec.is_folded ? folded : main)?.append(panel.element);
  }
  times = new StepTimes();
  const busy = csv(facts.charts.find((spec) => spec.key === "gpu") || facts.charts.find((spec) => spec.key === "cpu"));
  const pageOf = (key) => root.dataset.nodePage?.replace("/nodes/0/", `/nodes/${key.replace("node-", "")}/`);
  heat = hasManyNodes() ? new ClusterMap("Every node", { names: facts.nodes, named: facts.named }, pageOf, busy) : new HeatMap("Every GPU", "GPU", facts.nodes, busy);
  main.append(times.element, heat.element);
  const gpu = panels.find(({ spec }) => spec.key === "gpu");
  if (gpu) {
    picker = new SeriesPicker("GPU busy", drawPicked);
    gpu.foot.prepend(picker.element);
  }
  const more = root.querySelector("[data-more-charts]");
  hideReplaced({});
  more.addEventListener("toggle", redraw);
  const fold = root.querySelector("[data-gpu-panels]");
  fold?.addEventListener("toggle", () => fold.open && last && loadPanels().catch(() => {}));
}

function addCores() {
  const fold = root.querySelector("[data-cores]");
  fold.hidden = facts.cores < 2;
  fold.querySelector("summary").textContent = `Every core: ${facts.cores} cores`;
  cores = new HeatMap("Every core", "Core", facts.nodes);
  cores.element.classList.remove("panel");
  fold.querySelector("[data-cores-heat]").append(cores.element);
  fold.addEventListener("toggle", () => fold.open && loadCores());
}

function start() {
  showAll();
  Object.assign(view, readView(facts));
  addPanels();
  addCores();
  evidenceButtons();
  axisButtons();
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-show-evidence]");
    if (link) press(new Set([link.dataset.showEvidence]));
  });
  document.getElementById("events")?.addEventListener("toggle", redraw);
  root.addEventListener("keydown", keys);
  root.querySelector("[data-zoom-reset]").addEventListener("click", () => zoomTo(0, facts.length_seconds));
  const redrawAll = () => {
    redraw();
    for (const each of [heat, cores, times]) each.draw();
  };
  onThemeChange(redrawAll);
  followPaper(() => [...panels, ...gpuPanels, times].map(({ chart }) => chart), redrawAll);
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
  if (last) fillTime();
  if (!view.isZoomed) showAll();
  load();
});
