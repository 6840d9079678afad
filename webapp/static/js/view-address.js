// What part of a run is shown, and which evidence: in the address, so that it can be passed on.
import { AXES } from "./axes.js";

// What the address says, for a run with these facts.
export function readView(facts) {
  const asked = new URLSearchParams(location.search);
  const axis = asked.get("axis") in AXES ? asked.get("axis") : "time";
  const rules = asked.has("evidence") ? asked.get("evidence").split(",") : facts.evidence.slice(0, 1).map(({ rule }) => rule);
  const found = { axis, shown: new Set(rules.filter(Boolean)) };
  const [from, to] = ["from", "to"].map((name) => Number(asked.get(name) ?? NaN));
  const isPart = asked.has("from") && from >= 0 && to > from && from < facts.length_seconds;
  return isPart ? { ...found, from, to: Math.min(to, facts.length_seconds), isZoomed: true } : found;
}

export function writeView({ from, to, isZoomed, shown, axis }) {
  const address = new URL(location.href);
  const values = { from: isZoomed ? from.toFixed(1) : null, to: isZoomed ? to.toFixed(1) : null, evidence: [...shown].join(","), axis: axis === "time" ? null : axis };
  for (const [name, value] of Object.entries(values)) {
    if (value === null) address.searchParams.delete(name);
    else address.searchParams.set(name, value);
  }
  history.replaceState(null, "", address);
}

// The part that a key leads to, as [from, to]; null: it is no key of ours.
export function change(key, { from, to }, length) {
  const span = to - from;
  const moved = (by) => {
    const start = Math.min(Math.max(from + by, 0), length - span);
    return [start, start + span];
  };
  const actions = {
    "+": () => [from + span / 4, to - span / 4],
    "=": () => [from + span / 4, to - span / 4],
    "-": () => [Math.max(from - span / 2, 0), Math.min(to + span / 2, length)],
    0: () => [0, length],
    ArrowLeft: () => moved(-span / 4),
    ArrowRight: () => moved(span / 4),
  };
  return actions[key]?.() || null;
}
