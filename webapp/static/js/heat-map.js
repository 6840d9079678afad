// Many series as rows of cells, darker (in the dark theme brighter) where they were busier.
import { colour, tooltipBox } from "./chart-kit.js";
import { elapsed, inUnit } from "./format.js";
import { element } from "./dom.js";

const STEPS = 5; // of 20 points each
const [MEAN_PX, AXIS_PX] = [42, 20];

export class HeatMap {
  // `title`: of the panel; `noun`: what a row is, as in "8 GPUs"; `csv`: an address or null.
  constructor(title, noun, names, csv = null) {
    Object.assign(this, { title, noun, names, heat: null, labelPx: 84 });
    this.canvas = element("canvas", { role: "img", "aria-label": `${title}: loading` });
    this.tip = tooltipBox();
    this.holder = element("div", { class: "heat" }, this.canvas, this.tip);
    this.table = element("div", { class: "chart-table", tabindex: "0", hidden: "" });
    const toggle = element("button", { class: "text-button", type: "button", "aria-expanded": "false", "aria-label": `Show as table: ${title}` }, "Table");
    toggle.addEventListener("click", () => {
      this.table.hidden = !this.table.hidden;
      toggle.setAttribute("aria-expanded", String(!this.table.hidden));
    });
    this.csv = csv && element("a", { href: csv, download: "", "aria-label": `CSV: ${title}` }, "CSV");
    this.width = element("span", { class: "quiet" });
    const foot = element("div", { class: "chart-foot" }, this.width, toggle, ...(this.csv ? [this.csv] : []));
    this.element = element("section", { class: "panel chart", "data-heat": noun }, element("div", { class: "chart-head" }, element("h3", {}, title), foot), this.holder, this.legend(), this.table);
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => (this.tip.hidden = true));
    new ResizeObserver(() => this.draw()).observe(this.holder);
  }

  legend() {
    const key = (name, words) => element("span", {}, element("i", { class: `heat-key ${name}` }), words);
    const steps = Array.from({ length: STEPS }, (_, i) => key(`heat-${i + 1}`, `${i ? 20 * i : 1} to ${i === STEPS - 1 ? "100 %" : 20 * i + 19}`));
    return element("div", { class: "legend" }, key("heat-0", "0 %"), ...steps, (this.blank = element("span", { hidden: "" }, "blank: unknown")));
  }

  show(heat, from, to) {
    Object.assign(this, { heat, from, to });
    this.element.hidden = !heat;
    if (!heat) return;
    const hasMany = Object.keys(this.names).length > 1;
    this.rows = heat.rows.map((row) => {
      const known = row.values.filter((value) => value !== null);
      const mean = known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
      return { ...row, mean, most: known.length ? Math.max(...known) : null, name: hasMany ? `${this.names[row.node]} ${row.label}` : row.label };
    });
    this.blank.hidden = heat.rows.every(({ values }) => !values.includes(null));
    this.width.textContent = `1 column = ${inUnit(heat.step, "seconds")}`;
    this.canvas.setAttribute("aria-label", this.summary());
    const line = ({ name, mean, most }) => element("tr", {}, element("th", { scope: "row" }, name), element("td", { class: "number" }, inUnit(mean, "pct")), element("td", { class: "number" }, inUnit(most, "pct")));
    const head = element("tr", {}, ...["", "Mean", "Highest"].map((words, i) => element("th", { scope: "col", ...(i ? { class: "number" } : {}) }, words || this.noun)));
    this.table.replaceChildren(element("table", {}, element("thead", {}, head), element("tbody", {}, ...this.rows.map(line))));
    this.draw();
  }

  get single() {
    return this.rows;
  }

  summary() {
    const idle = this.rows.filter(({ most }) => most === 0).length;
    const mean = this.rows.reduce((sum, row) => sum + (row.mean || 0), 0) / this.rows.length;
    return `${this.title}: ${this.rows.length} rows, mean ${inUnit(mean, "pct")}${idle ? `; ${idle} at 0 % throughout` : ""}.`;
  }

  draw() {
    if (!this.heat || !this.holder.clientWidth) return;
    const width = this.holder.clientWidth;
    this.tops = [0];
    for (const row of this.rows) this.tops.push(this.tops.at(-1) + this.rowPx(row));
    const height = this.tops.at(-1) + AXIS_PX;
    const scale = window.devicePixelRatio || 1;
    this.holder.style.height = `${height}px`;
    Object.assign(this.canvas, { width: width * scale, height: height * scale });
    const ctx = this.canvas.getContext("2d");
    ctx.scale(scale, scale);
    ctx.clearRect(0, 0, width, height);
    this.plotPx = width - this.labelPx - MEAN_PX;
    const fills = Array.from({ length: STEPS }, (_, i) => colour(`heat-${i + 1}`));
    const [text, worse] = [colour("quiet"), colour("worse")];
    ctx.font = `10px ${getComputedStyle(document.body).fontFamily}`;
    ctx.textBaseline = "middle";
    let written = -Infinity;
    this.rows.forEach((row, at) => {
      this.fillRow(ctx, row, at, fills);
      const y = (this.tops[at] + this.tops[at + 1]) / 2;
      if (y - written < 10) return;
      written = y;
      ctx.fillStyle = row.most === 0 ? worse : text;
      ctx.textAlign = "right";
      ctx.fillText(row.name, this.labelPx - 6, y, this.labelPx - 6);
      ctx.fillText(inUnit(row.mean, "pct"), width, y);
    });
    this.drawAxis(ctx, this.tops.at(-1), text);
  }

  rowPx() {
    const count = this.rows.length;
    return count > 48 ? Math.max(2, Math.floor(280 / count)) : count > 16 ? 10 : 11;
  }

  rowAt(y) {
    return this.rows?.[this.tops.findIndex((top) => top > y) - 1];
  }

  place(seconds) {
    return this.labelPx + ((seconds - this.from) / (this.to - this.from)) * this.plotPx;
  }

  fillRow(ctx, row, at, fills) {
    const { start, step } = this.heat;
    const rowPx = this.tops[at + 1] - this.tops[at];
    const [top, height] = [this.tops[at], Math.max(rowPx - (rowPx > 4 ? 1 : 0), 1)];
    let run = 0;
    const levelAt = (index) => (row.values[index] === null || row.values[index] === undefined ? null : Math.min(Math.ceil((row.values[index] + 0.5) / 20), STEPS));
    const level = (index) => (row.values[index] === 0 ? 0 : levelAt(index));
    for (let index = 1; index <= row.values.length; index += 1) {
      if (index < row.values.length && level(index) === level(run)) continue;
      const left = Math.max(this.place(start + run * step), this.labelPx);
      const right = Math.min(this.place(start + index * step), this.labelPx + this.plotPx);
      if (level(run) !== null && right > left) this.fillCell(ctx, left, top, right - left, height, level(run), fills);
      run = index;
    }
  }

  fillCell(ctx, left, top, width, height, level, fills) {
    ctx.fillStyle = level ? fills[level - 1] : colour("heat-none");
    ctx.fillRect(left, top, width + 0.4, height);
    if (level) return;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    ctx.strokeStyle = colour("hatch");
    ctx.lineWidth = 0.6;
    ctx.beginPath();
    for (let x = left - height; x < left + width; x += 5) {
      ctx.moveTo(x, top + height);
      ctx.lineTo(x + height, top);
    }
    ctx.stroke();
    ctx.restore();
  }

  drawAxis(ctx, top, text) {
    const marks = Math.max(Math.min(5, Math.floor(this.plotPx / 70)), 1);
    ctx.fillStyle = text;
    for (let index = 0; index <= marks; index += 1) {
      const seconds = this.from + ((this.to - this.from) * index) / marks;
      ctx.textAlign = index === 0 ? "left" : index === marks ? "right" : "center";
      ctx.fillText(elapsed(seconds), this.place(seconds), top + AXIS_PX / 2 + 2);
    }
  }

  point({ offsetX, offsetY }) {
    const row = this.rowAt(offsetY);
    const seconds = this.from + ((offsetX - this.labelPx) / this.plotPx) * (this.to - this.from);
    const value = row?.values[Math.floor((seconds - this.heat.start) / this.heat.step)];
    this.tip.hidden = !row || offsetX < this.labelPx || offsetX > this.labelPx + this.plotPx;
    if (this.tip.hidden) return;
    this.tip.textContent = `${row.name}, ${elapsed(seconds)}: ${value === null || value === undefined ? "no samples" : inUnit(value, "pct")}`;
    this.tip.style.left = `${Math.min(offsetX + 12, this.holder.clientWidth - this.tip.offsetWidth)}px`;
    this.tip.style.top = `${offsetY + 14}px`;
  }
}
