/**
 * Rows over time as bars. One bar is in the tab order: arrow keys move along them, with Shift they choose several, Enter
 * narrows the range to what is chosen; so does a click on one or a drag over several.
 */

import { byId, counted, h, show, svg, table } from "../shared/dom.js";
import { extremes } from "../shared/exact_json.js";
import { hasRoom } from "../shared/time_axis.js";
import { between, timeTicks, writeMoment, zoneName } from "./zone.js";

const HEIGHT = 100;

export class Histogram {
  constructor(narrow) {
    this.narrow = narrow;
    this.bars = [];
    this.severities = null; // the rows of each bar by severity, the most severe first, where they are known
    this.here = 0; // the bar in the tab order
    this.anchor = 0; // where choosing several began
    this.dragging = false;
    this.place = byId("lx-bars");
    byId("lx-table-details").addEventListener("toggle", () => this.table());
    window.addEventListener("pointerup", () => this.release());
  }

  hide() {
    byId("lx-histogram").hidden = true;
  }

  /** Show the answer of the service; `aggregate` is count, of rows, or as it was written, avg(m.latency). A value is text. */
  show({ period, bars }, aggregate) {
    this.aggregate = aggregate;
    this.bars = bars.map(([start, end, text]) => {
      const value = Number.isFinite(Number(text ?? NaN)) ? Number(text) : null; // what is drawn; NaN has no height
      return { start: new Date(start), end: new Date(end), text, value };
    });
    this.here = this.anchor = this.bars.length - 1;
    this.severities = null;
    byId("lx-histogram").hidden = false;
    show(byId("lx-histogram-heading"), `${aggregate === "count" ? "Rows" : aggregate} per ${period}`);
    this.draw();
  }

  /** Tell the severities of the bars that are shown: counts of each, or null where there are too many rows. */
  showSeverities(counts) {
    const found = Object.entries(counts ?? {}).filter(([, ofBars]) => ofBars.some((count) => count > 0));
    const fits = found.every(([, ofBars]) => ofBars.length === this.bars.length);
    this.severities = counts && fits ? found : null;
    // In place: somebody may be choosing bars.
    this.drawn.forEach((drawn, index) => {
      drawn.setAttribute("aria-label", this.described(this.bars[index], index));
      drawn.replaceChildren(drawn.firstElementChild, ...this.values(this.bars[index], index));
    });
    this.legend();
    this.table();
    if (!counts) show(byId("lx-legend"), h("li", {}, "Too many rows to tell their severities: take a narrower range."));
  }

  draw() {
    if (!this.bars.length) return;
    const hadFocus = this.place.contains(document.activeElement);
    show(this.place, this.chart(), this.axis());
    if (hadFocus) this.drawn[this.here].focus();
    else this.tell(null);
    this.legend();
    this.table();
  }

  legend() {
    const entry = ([severity, ofBars]) => {
      const rows = ofBars.reduce((sum, count) => sum + count, 0).toLocaleString("en");
      return h("li", {}, h("span", { class: `lx-swatch lx-severity-${severity}`, "aria-hidden": "true" }), `${severity} ${rows}`);
    };
    show(byId("lx-legend"), ...(this.severities ?? []).map(entry));
  }

  /** The number of rows in the range; null where they were not counted. */
  get total() {
    return this.aggregate === "count" ? this.bars.reduce((sum, { value }) => sum + (value ?? 0), 0) : null;
  }

  get most() {
    return Math.max(0, ...this.bars.map(({ value }) => value ?? 0));
  }

  get least() {
    return Math.min(0, ...this.bars.map(({ value }) => value ?? 0));
  }

  /** Which values are drawn: from nought, or from the least one if that is negative, to the greatest. */
  get span() {
    const [least, most] = extremes(["0", ...this.bars.filter(({ value }) => value !== null).map(({ text }) => text)]);
    return this.least < 0 ? `${this.written(least)} to ${this.written(most)}` : this.most ? this.written(most) : "";
  }

  /** A count with separators; other values with the digits of the database. */
  written(text) {
    return this.aggregate === "count" ? Number(text).toLocaleString("en") : text;
  }

  chart() {
    const width = this.bars.length;
    this.drawn = this.bars.map((bar, index) => this.drawnBar(bar, index));
    const label = `${width} bars; arrow keys move, Enter narrows the time range to a bar`;
    const box = { viewBox: `0 0 ${width} ${HEIGHT}`, preserveAspectRatio: "none" };
    const chart = svg("svg", { ...box, class: "lx-chart", role: "group", "aria-label": label }, this.drawn);
    chart.addEventListener("keydown", (event) => this.key(event));
    chart.addEventListener("pointerleave", () => this.tell(null));
    return h("div", { class: "lx-plot" }, h("span", { class: "lx-most" }, this.span), chart);
  }

  /** The line of times below the bars. */
  axis() {
    const first = this.bars[0].start.getTime();
    const last = this.bars.at(-1).end.getTime();
    const width = this.place.clientWidth;
    const marks = timeTicks(first, last, width).map(({ value, text }) => {
      const at = (value - first) / (last - first);
      const mark = hasRoom(at, width) && h("span", { class: "lx-tick" }, text);
      if (mark) mark.style.left = `${at * 100}%`;
      return mark;
    });
    return h("div", { class: "lx-axis", "aria-hidden": "true" }, marks);
  }

  /** The first and the last bar may be shorter than the others, like the part of the period they stand for. */
  extent(bar) {
    const start = this.bars[0].start.getTime();
    const unit = (this.bars.at(-1).end.getTime() - start) / this.bars.length;
    return { x: (bar.start.getTime() - start) / unit, width: (bar.end.getTime() - bar.start.getTime()) / unit };
  }

  drawnBar(bar, index) {
    const { x, width } = this.extent(bar);
    return svg(
      "g",
      {
        class: "lx-one",
        role: "button",
        tabindex: index === this.here ? 0 : -1,
        "aria-label": this.described(bar, index),
        onpointerdown: (event) => this.press(event, index),
        onpointerenter: () => this.pointAt(index),
        onfocus: () => this.tell(index),
        onblur: () => this.tell(null),
      },
      svg("rect", { class: "lx-back", x, y: 0, width, height: HEIGHT }),
      this.values(bar, index),
    );
  }

  /** The visible parts of a bar from the ground: its severities, the most severe below, or all of it; down if negative. */
  values(bar, index) {
    const { x, width } = this.extent(bar);
    const { most, least, severities } = this;
    const height = (value) => (value ? Math.max(1.5, (Math.abs(value) / (most - least)) * (HEIGHT - 2)) : 0);
    let top = HEIGHT - (least && height(least));
    const part = (css, value) => {
      const tall = value < 0 ? height(value) : Math.min(top, height(value));
      if (value > 0) top -= tall;
      return svg("rect", { class: `lx-value ${css}`, x: x + 0.08 * width, y: top, width: 0.84 * width, height: tall });
    };
    if (!severities) return [part("", bar.value)];
    return severities.map(([severity, ofBars]) => part(`lx-severity-${severity}`, ofBars[index]));
  }

  tell(index) {
    const [first, last] = this.chosen();
    const told = byId("lx-told");
    if (index === null) {
      if (!this.dragging) show(told, "Click a bar or drag over several to look closer.");
    } else if (first === last) show(told, this.described(this.bars[index], index));
    else show(told, `${between(this.bars[first].start, this.bars[last].end)}: Enter or let go to look closer.`);
  }

  /** A bar in words, for who does not see it. */
  described(bar, index) {
    const { start, end, text, value } = bar;
    const what = () => (this.aggregate === "count" ? counted(value, "row") : `${this.aggregate} ${text}`);
    const parts = (this.severities ?? []).filter(([, ofBars]) => ofBars[index] > 0);
    const severities = parts.map(([severity, ofBars]) => `${ofBars[index].toLocaleString("en")} ${severity}`).join(", ");
    return `${between(start, end)}: ${text === null ? "nothing" : what()}${severities && `, ${severities}`}`;
  }

  table() {
    if (!byId("lx-table-details").open) return;
    const severities = this.severities ?? [];
    const lines = this.bars.map((bar, index) => [
      writeMoment(bar.start),
      writeMoment(bar.end),
      bar.text === null ? "–" : this.written(bar.text),
      ...severities.map(([, ofBars]) => ofBars[index].toLocaleString("en")),
    ]);
    const what = this.aggregate === "count" ? "Rows" : this.aggregate;
    const headings = [`From (${zoneName()})`, "To", what, ...severities.map(([severity]) => severity)];
    show(byId("lx-table"), table("lx-table", headings, lines));
  }

  press(event, index) {
    event.preventDefault(); // else the drag selects text
    this.anchor = index;
    this.dragging = true;
    this.go(index);
  }

  pointAt(index) {
    if (this.dragging) this.go(index);
    else this.tell(index);
  }

  release() {
    if (!this.dragging) return;
    this.dragging = false;
    this.choose();
  }

  key(event) {
    const last = this.bars.length - 1;
    const to = { ArrowRight: this.here + 1, ArrowLeft: this.here - 1, Home: 0, End: last }[event.key];
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.choose();
    } else if (to !== undefined) {
      event.preventDefault();
      const next = Math.min(Math.max(to, 0), last);
      if (!event.shiftKey) this.anchor = next;
      this.go(next);
    }
  }

  go(index) {
    this.drawn[this.here].setAttribute("tabindex", "-1");
    this.here = index;
    this.drawn[index].setAttribute("tabindex", "0");
    const [first, last] = this.chosen();
    this.drawn.forEach((bar, at) => bar.classList.toggle("lx-chosen", at >= first && at <= last));
    this.drawn[index].focus();
    this.tell(index);
  }

  chosen() {
    return [Math.min(this.anchor, this.here), Math.max(this.anchor, this.here)];
  }

  choose() {
    const [first, last] = this.chosen();
    this.narrow({ start: this.bars[first].start, end: this.bars[last].end });
  }
}
