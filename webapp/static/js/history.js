// The parts of a job's cost chart: dots, what was expected, levels, open regressions, marks.
import { colour, lineColour } from "./chart-kit.js";
import { element } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const MARKS = { advice: "◆", price: "●", hardware: "■" };

export function costData(points) {
  const at = (key, keep = () => true) => points.map((point, x) => ({ x, y: keep(point) && point[key] !== null ? point[key] : NaN }));
  const band = { borderWidth: 0, pointRadius: 0, pointHoverRadius: 0, pointHitRadius: 0, fill: false };
  return [
    { ...band, data: at("low") },
    { ...band, data: at("high"), fill: "-1", backgroundColor: `${lineColour(0)}26` },
    { ...band, data: at("expected", ({ is_open: isOpen }) => isOpen), borderWidth: 1.5, borderDash: [2, 3], borderColor: lineColour(0) },
    dots(points, at("usd")),
  ];
}

// A run of an open regression is a triangle; one that isn't compared is hollow.
function dots(points, data) {
  const own = ({ is_open: isOpen }) => (isOpen ? colour("worse") : lineColour(0));
  return {
    data,
    isTold: true,
    showLine: false,
    pointStyle: points.map(({ is_open: isOpen }) => (isOpen ? "triangle" : "circle")),
    pointRadius: points.map(({ is_open: isOpen }) => (points.length > 60 ? 2.5 : 3.5) + (isOpen ? 1 : 0)),
    pointHitRadius: 8,
    pointBorderColor: points.map(own),
    pointBorderWidth: 1.5,
    pointBackgroundColor: points.map((point) => (point.is_judged ? own(point) : colour("surface"))),
  };
}

// One box over the runs of each open regression.
export function regressionBand(points) {
  const spans = [];
  points.forEach(({ is_open: isOpen }, at) => {
    if (!isOpen) return;
    if (spans.length && spans.at(-1)[1] === at - 1) spans.at(-1)[1] = at;
    else spans.push([at, at]);
  });
  return spans.map(([from, to]) => ({
    type: "box",
    drawTime: "beforeDatasetsDraw",
    xMin: from - 0.5,
    xMax: to + 0.5,
    backgroundColor: colour("evidence"),
    borderColor: colour("evidence-edge"),
    borderWidth: 1,
    borderDash: [3, 3],
    label: { display: true, content: "▲ open regression", position: { x: "end", y: "start" }, font: { size: 11, weight: 600 }, color: colour("worse"), padding: 3 },
  }));
}

export function levelLines(levels, points) {
  const place = new Map(points.map(({ number }, at) => [number, at]));
  return levels.map(({ numbers, usd, is_open: isOpen }) => ({
    type: "line",
    drawTime: "beforeDatasetsDraw",
    xMin: place.get(numbers[0]) - 0.4,
    xMax: place.get(numbers.at(-1)) + 0.4,
    yMin: usd,
    yMax: usd,
    borderColor: isOpen ? colour("worse") : lineColour(0),
    borderWidth: 1.5,
  }));
}

// Where something changed: a line, and its kind above the chart.
export function markLines(points) {
  return points.flatMap(({ marks }, at) =>
    marks.length
      ? [{
          type: "line",
          drawTime: "beforeDatasetsDraw",
          xMin: at - 0.5,
          xMax: at - 0.5,
          borderColor: colour("line-strong"),
          borderWidth: 1,
          borderDash: [3, 3],
          label: { display: true, content: [...new Set(marks.map(({ kind }) => MARKS[kind]))].join(""), position: "end", yAdjust: -12, padding: 0, font: { size: 11 }, color: colour("text"), backgroundColor: "transparent" },
        }]
      : [],
  );
}

function shape(words, inner) {
  const key = document.createElementNS(SVG, "svg");
  key.setAttribute("viewBox", "0 0 18 10");
  key.setAttribute("aria-hidden", "true");
  key.setAttribute("class", "history-key");
  key.innerHTML = inner;
  return element("span", {}, key, words);
}

// The legend: only of what is drawn.
export function runShapes(points) {
  const isOpen = points.some((point) => point.is_open);
  return [
    shape("run", '<circle class="history-run" cx="9" cy="5" r="3.5"/>'),
    ...(points.some((point) => !point.is_judged) ? [shape("not compared", '<circle class="history-other" cx="9" cy="5" r="3.5"/>')] : []),
    shape("level", '<path class="series-1" d="M0 5h18" stroke-width="2"/>'),
    ...(points.some((point) => point.low !== null) ? [shape("expected", '<rect class="history-band" width="18" height="10"/>')] : []),
    ...(isOpen ? [shape("run of the regression", '<path class="history-worse" d="M9 1 13.5 9h-9z"/>'), shape("level before", '<path class="series-1" d="M0 5h18" stroke-width="2" stroke-dasharray="2 3"/>')] : []),
    ...["advice", "price", "hardware"].filter((kind) => points.some(({ marks }) => marks.some((mark) => mark.kind === kind))).map((kind) => element("span", {}, `${MARKS[kind]} ${{ advice: "followed advice", price: "price", hardware: "hardware" }[kind]}`)),
  ];
}
