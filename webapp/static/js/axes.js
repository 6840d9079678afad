// The words on the horizontal axis: a moment as time, training step, epoch or dollars.
import { elapsed, usd } from "./format.js";

export const AXES = { time: "Time", step: "Step", epoch: "Epoch", dollars: "Dollars" };

// How many training steps, or epochs, were done at a moment; by a straight line between two that are known.
function doneAt(progress, seconds) {
  const next = progress.findIndex(([at]) => at >= seconds);
  if (next === 0) return progress[0][1];
  if (next < 0) return progress.at(-1)[1];
  const [[a, before], [b, after]] = [progress[next - 1], progress[next]];
  return before + ((after - before) * (seconds - a)) / (b - a || 1);
}

// `whole`: the answer for the whole run, where steps count from its start.
export function axisOf(name, facts, whole) {
  if (name === "dollars" && facts.usd) return (seconds) => usd((seconds / facts.length_seconds) * facts.usd);
  const progress = whole?.progress || [];
  if (name === "step" && progress.length > 1) return (seconds) => Math.round(doneAt(progress, seconds)).toLocaleString("en");
  if (name === "epoch" && progress.length > 1 && facts.epochs) {
    const total = progress.at(-1)[1];
    return (seconds) => ((doneAt(progress, seconds) / total) * facts.epochs).toFixed(1);
  }
  return elapsed;
}
