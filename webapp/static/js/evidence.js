// What rules found, on the charts: one light band per stretch, with the rule's name, under the lines.
import { colour } from "./chart-kit.js";

// Stretches that overlap or touch are one, whatever node they are of.
export function merged(windows) {
  const spans = [];
  for (const [from, to] of [...windows].sort((a, b) => a[0] - b[0])) {
    const last = spans.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else spans.push([from, to]);
  }
  return spans;
}

// A plugin that draws bands under the lines. Not annotations: these take a hundred times as long, and a rule may have
// found something in forty stretches. `found` returns {title, windows} of the rules that are shown; `hasNames`: the
// first of the charts that are side by side names them.
export function evidenceBands(found, hasNames) {
  return {
    id: "evidence",
    beforeDatasetsDraw: (chart) => {
      const { ctx, chartArea } = chart;
      chart.evidence = found().map(({ title, windows }) => ({ title, spans: merged(windows) }));
      ctx.save();
      ctx.beginPath();
      ctx.rect(chartArea.left, chartArea.top, chartArea.width, chartArea.height);
      ctx.clip();
      for (const { title, spans } of chart.evidence) drawBands(chart, spans, hasNames ? title : "");
      ctx.restore();
    },
  };
}

function drawBands({ ctx, chartArea, scales }, spans, title) {
  const places = spans.map((span) => span.map((seconds) => scales.x.getPixelForValue(seconds)));
  for (const [name, height] of [["evidence", chartArea.height], ["evidence-edge", 2]]) {
    ctx.fillStyle = colour(name);
    for (const [left, right] of places) ctx.fillRect(left, chartArea.top, Math.max(right - left, 1), height);
  }
  const first = places.find(([, right]) => right > chartArea.left);
  if (!title || !first) return;
  ctx.fillStyle = colour("worse");
  ctx.font = `600 11px ${getComputedStyle(document.body).fontFamily}`;
  ctx.textBaseline = "top";
  ctx.fillText(title, Math.max(first[0], chartArea.left) + 4, chartArea.top + 5);
}

// Events as thin lines, numbered as in the list below the charts.
export function eventLines(events) {
  return events.map(({ seconds, is_trouble: isTrouble }, index) => ({
    type: "line",
    xMin: seconds,
    xMax: seconds,
    borderColor: isTrouble ? colour("worse") : colour("line-strong"),
    borderWidth: 1,
    borderDash: [3, 3],
    label: { display: true, content: String(index + 1), position: "start", font: { size: 10 }, padding: 2, color: colour("surface"), backgroundColor: isTrouble ? colour("worse") : colour("quiet") },
  }));
}
