// One small drawing for each node, all with the same axes: how busy it was.
import { element } from "./dom.js";
import { elapsed } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [300, 60];

function path(name, points) {
  const made = document.createElementNS(SVG, "path");
  made.setAttribute("class", name);
  made.setAttribute("d", points);
  return made;
}

// Stretches of known values; a hole in the data stays a hole.
function stretches(values) {
  const found = [];
  values.forEach((value, at) => {
    if (value === null) return;
    if (at && values[at - 1] !== null) found.at(-1).push(at);
    else found.push([at]);
  });
  return found;
}

function drawing({ start, step, mean, min, max }, view, label) {
  const x = (at) => (((start + at * step - view.from) / (view.to - view.from)) * WIDTH).toFixed(1);
  const y = (value) => (HEIGHT - (Math.min(value, 100) / 100) * HEIGHT).toFixed(1);
  const svg = document.createElementNS(SVG, "svg");
  for (const [name, value] of Object.entries({ viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label })) svg.setAttribute(name, value);
  const parts = stretches(mean);
  const band = parts.map((places) => `M${[...places.map((at) => `${x(at)} ${y(max[at])}`), ...places.toReversed().map((at) => `${x(at)} ${y(min[at])}`)].join("L")}Z`);
  svg.append(path("multiple-band", band.join("")), path("multiple-line", parts.map((places) => `M${places.map((at) => `${x(at)} ${y(mean[at])}`).join("L")}`).join("")));
  return svg;
}

export function drawMultiples(holder, nodes, names, view) {
  if (!holder) return;
  holder.replaceChildren(
    ...nodes.map((node) => {
      const known = node.mean.filter((value) => value !== null);
      const mean = known.length ? `${Math.round(known.reduce((sum, value) => sum + value, 0) / known.length)} %` : "no samples";
      const name = names[node.node] || node.node;
      const head = element("figcaption", { class: "row row-apart small" }, element("span", { class: "strong" }, name), element("span", { class: "quiet" }, mean));
      return element("figure", {}, head, drawing(node, view, `${node.label}, ${name}: mean ${mean}`));
    }),
    element("p", { class: "quiet small" }, `${nodes[0]?.label || "Busy"}, 0 to 100 %, from ${elapsed(view.from)} to ${elapsed(view.to)}: mean, from least to most.`),
  );
}
