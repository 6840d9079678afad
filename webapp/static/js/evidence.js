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

// Annotations for a chart; `withLabel`: the first of the charts that are side by side names the rule.
export function bands(found, withLabel) {
  return found.flatMap(({ title, windows }) =>
    merged(windows).flatMap(([xMin, xMax], index) => [
      {
        type: "box",
        drawTime: "beforeDatasetsDraw",
        xMin,
        xMax,
        backgroundColor: colour("evidence"),
        borderWidth: 0,
        label: { display: withLabel && index === 0, content: title, position: { x: "start", y: "start" }, font: { size: 11, weight: 600 }, color: colour("worse"), padding: 3 },
      },
      {
        type: "line",
        drawTime: "beforeDatasetsDraw",
        xMin,
        xMax,
        yMin: ({ chart }) => chart.scales.y?.max,
        yMax: ({ chart }) => chart.scales.y?.max,
        borderColor: colour("evidence-edge"),
        borderWidth: 2,
      },
    ]),
  );
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
