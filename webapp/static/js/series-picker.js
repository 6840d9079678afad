// Single series of a chart that draws many as one line: those that a person ticks are drawn, too.
import { element } from "./dom.js";

export class SeriesPicker {
  // `changed`: called when a tick changes.
  constructor(title, changed) {
    Object.assign(this, { changed, ticked: new Set(), rows: [] });
    this.list = element("div", { class: "menu-list picker", role: "group", "aria-label": `Single lines: ${title}` });
    this.element = element("details", { class: "menu menu-end", hidden: "" }, element("summary", { class: "text-button" }, "Series"), this.list);
  }

  // The rows of a heat map: [{name, values}], with the `start` and `step` of their times.
  offer(rows, { start, step }) {
    const isSame = rows.length === this.rows.length && rows.every(({ name }, at) => name === this.rows[at].name);
    Object.assign(this, { rows, start, step });
    this.element.hidden = !rows.length;
    if (!isSame) this.list.replaceChildren(...rows.map(({ name }) => this.box(name)));
  }

  box(name) {
    const input = element("input", { type: "checkbox" });
    input.checked = this.ticked.has(name);
    input.addEventListener("change", () => {
      if (input.checked) this.ticked.add(name);
      else this.ticked.delete(name);
      this.changed();
    });
    return element("label", { class: "menu-item" }, element("span", {}, input, ` ${name}`));
  }

  // The ticked ones as lines.
  lines() {
    const times = (values) => values.map((_, index) => this.start + index * this.step);
    return this.rows
      .filter(({ name }) => this.ticked.has(name))
      .map(({ name, values }) => ({ label: name, kind: "plain", series: { t: times(values), min: values, mean: values, max: values } }));
  }
}
