// What the training did when, as a strip; grey where no step was recorded.
import { element } from "./dom.js";
import { elapsed } from "./format.js";

const COLOURS = { initialise: 5, train: 1, evaluate: 4, checkpoint: 6, finalise: 3 };
const SVG = "http://www.w3.org/2000/svg";

function rectangle(from, to, name, view) {
  const made = document.createElementNS(SVG, "rect");
  const scale = 1000 / (view.to - view.from);
  const [left, right] = [Math.max(from, view.from), Math.min(to, view.to)];
  const values = { x: (left - view.from) * scale, width: Math.max((right - left) * scale, 1), height: 12, class: name };
  for (const [key, value] of Object.entries(values)) made.setAttribute(key, value);
  return made;
}

export function drawPhases(holder, phases, view) {
  if (!holder) return;
  holder.replaceChildren();
  if (!phases.length) return;
  const strip = document.createElementNS(SVG, "svg");
  strip.setAttribute("viewBox", "0 0 1000 12");
  strip.setAttribute("preserveAspectRatio", "none");
  strip.setAttribute("class", "phase-strip");
  strip.setAttribute("role", "img");
  const names = [...new Set(phases.map(([, , phase]) => phase))];
  strip.setAttribute("aria-label", `Recorded steps over time: ${names.join(", ")}.`);
  strip.append(rectangle(view.from, view.to, "phase-none", view));
  for (const [from, to, phase] of phases) strip.append(rectangle(from, to, `phase-${COLOURS[phase] || 2}`, view));
  const axis = element("div", { class: "phase-axis quiet small" }, element("span", {}, elapsed(view.from)), element("span", {}, "recorded steps, grey: none"), element("span", {}, elapsed(view.to)));
  holder.append(element("div", { class: "panel-body" }, strip, axis));
}
