// A job's page: cost over its runs.
import { colour, lineColour, onThemeChange, readJson, tooltip, valueScale } from "./chart-kit.js";
import { usd } from "./format.js";

const facts = readJson("job-chart");
const charts = [];

// As many decimals as the distance between two ticks needs, and two at least: $0.20, $0.0005.
function decimals(ticks) {
  const step = ticks.length > 1 ? ticks[1].value - ticks[0].value : 1;
  return Math.min(Math.max(2, Math.ceil(-Math.log10(step) - 1e-9)), 9);
}

function options(runs, key) {
  const money = valueScale("", undefined);
  money.ticks.callback = (value, _, ticks) => (value === 0 ? "$0" : `$${value.toFixed(decimals(ticks))}`);
  const tip = tooltip("", () => "");
  tip.filter = () => true;
  tip.callbacks = {
    title: ([item]) => `Run #${runs[item.dataIndex].number}, ${runs[item.dataIndex].state.toLowerCase()}`,
    label: (item) => ` ${usd(runs[item.dataIndex][key])}`,
  };
  return {
    animation: false,
    maintainAspectRatio: false,
    interaction: { mode: "index", intersect: false },
    onClick: (_, items) => items.length && location.assign(runs[items[0].index].address),
    scales: {
      x: {
        grid: { display: false },
        border: { color: colour("line-strong") },
        ticks: { color: colour("quiet"), font: { size: 11 }, maxRotation: 0, autoSkipPadding: 12 },
      },
      y: money,
    },
    plugins: { legend: { display: false }, tooltip: tip },
  };
}

function dataset(runs, key) {
  const data = runs.map((run) => run[key]);
  const ended = (run) => run.state === "Finished";
  if (key === "usd") {
    return { data, backgroundColor: runs.map((run) => `${lineColour(0)}${ended(run) ? "" : "66"}`), borderRadius: 2, maxBarThickness: 36 };
  }
  return { data, borderColor: lineColour(0), backgroundColor: lineColour(0), borderWidth: 1.8, pointRadius: 3, spanGaps: false };
}

function draw() {
  while (charts.length) charts.pop().destroy();
  for (const canvas of document.querySelectorAll("[data-job-charts] canvas")) {
    const key = canvas.dataset.chart;
    const data = { labels: facts.runs.map((run) => `#${run.number}`), datasets: [dataset(facts.runs, key)] };
    charts.push(new Chart(canvas, { type: key === "usd" ? "bar" : "line", data, options: options(facts.runs, key) }));
  }
}

if (facts) {
  draw();
  onThemeChange(draw);
}
