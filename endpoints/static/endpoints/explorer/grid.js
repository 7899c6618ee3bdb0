/**
 * Rows as a table of the columns that a query chooses: sorted among what is shown, with widths that can be dragged or
 * set by arrow keys. A body of the table is a row, which unfolds into its JSON.
 */

import { h, show } from "../shared/dom.js";
import { compareExactly, ExactNumber, writeExactly } from "../shared/exact_json.js";

const FIRST = ["timestamp", "project"];
const WIDTHS = { timestamp: 200, project: 120 };
const USUAL_WIDTH = 220;
const LEAST_WIDTH = 60;
const MOST_WIDTH = 1200;
const STEP = 10; // of an arrow key, in pixels

const widths = {}; // that somebody has set, by column, for as long as the page is open

/** @typedef {{name: string, isDescending: boolean}} Sort */

export class Grid {
  /** `sorted` is called with another sort, or null; `cells` gives the time of a row and what it unfolds into. */
  constructor(names, sort, { sorted, cells }) {
    Object.assign(this, { names, sort, sorted, cells });
    this.columns = names.map(() => h("col"));
    this.heads = names.map((name, index) => this.head(name, index));
    const head = h("thead", {}, h("tr", {}, this.heads));
    this.table = h("table", { class: "lx-grid", "aria-labelledby": "lx-rows-heading" }, h("colgroup", {}, this.columns), head);
    this.place = h("div", { class: "lx-grid-room", role: "group", tabindex: "0", "aria-labelledby": "lx-rows-heading" }, this.table);
    this.setWidths();
    this.tellSort();
  }

  /** The element of a row. */
  line(row, severity) {
    const time = h("button", { type: "button", class: "lx-open", "aria-expanded": "false" }, this.cells.time(row));
    const line = h("tr", {}, this.names.map((name) => h("td", {}, name === "timestamp" ? time : written(row[name]))));
    const body = h("tbody", { class: `lx-item lx-severity-${severity}` }, line);
    line.addEventListener("click", () => {
      if (window.getSelection()?.isCollapsed === false) return; // somebody selects text
      const isOpen = body.childElementCount > 1;
      if (isOpen) body.lastElementChild.remove();
      else body.append(h("tr", {}, h("td", { colspan: this.names.length }, this.cells.unfolded(row))));
      time.setAttribute("aria-expanded", String(!isOpen));
    });
    return body;
  }

  /** Put the lines in order; `lines` are the rows, newest first, with their elements. */
  arrange(lines) {
    const { sort } = this;
    const ordered = sort && this.names.includes(sort.name) ? inOrder(lines, sort) : lines;
    this.table.append(...ordered.map(({ element }) => element));
  }

  head(name, index) {
    const sort = h("button", { type: "button", class: "lx-sort", onclick: () => this.sortBy(name) }, label(name));
    const grip = h("span", {
      class: "lx-grip",
      role: "separator",
      tabindex: "0",
      "aria-orientation": "vertical",
      "aria-label": `Width of ${label(name)}`,
      "aria-valuemin": LEAST_WIDTH,
      "aria-valuemax": MOST_WIDTH,
      onkeydown: (event) => {
        const by = { ArrowLeft: -STEP, ArrowRight: STEP }[event.key];
        if (by === undefined) return;
        event.preventDefault();
        this.setWidth(index, this.heads[index].offsetWidth + by);
      },
      onpointerdown: (event) => this.drag(event, index),
    });
    return h("th", { scope: "col" }, sort, grip);
  }

  drag(event, index) {
    event.preventDefault();
    const grip = event.currentTarget;
    const start = event.clientX;
    const width = this.heads[index].offsetWidth;
    const move = ({ clientX }) => this.setWidth(index, width + clientX - start);
    grip.setPointerCapture(event.pointerId);
    grip.addEventListener("pointermove", move);
    grip.addEventListener("lostpointercapture", () => grip.removeEventListener("pointermove", move), { once: true });
  }

  setWidth(index, width) {
    widths[this.names[index]] = Math.min(Math.max(Math.round(width), LEAST_WIDTH), MOST_WIDTH);
    this.setWidths();
  }

  /** The last column takes what the others leave, unless somebody has set its width. */
  setWidths() {
    let all = 0;
    this.names.forEach((name, index) => {
      const isLast = index === this.names.length - 1;
      const width = widths[name] ?? WIDTHS[name] ?? USUAL_WIDTH;
      all += width;
      this.columns[index].style.width = isLast && !widths[name] ? "auto" : `${width}px`;
      this.heads[index].lastElementChild.setAttribute("aria-valuenow", String(width));
    });
    this.table.style.minWidth = `${all}px`;
  }

  /** Ascending, descending, and back to the newest first. */
  sortBy(name) {
    if (this.sort?.name !== name) this.sort = { name, isDescending: false };
    else this.sort = this.sort.isDescending ? null : { name, isDescending: true };
    this.tellSort();
    this.sorted(this.sort);
  }

  tellSort() {
    const { sort } = this;
    this.names.forEach((name, index) => {
      const isSorted = sort?.name === name;
      const order = isSorted ? (sort.isDescending ? "descending" : "ascending") : "none";
      this.heads[index].setAttribute("aria-sort", order);
      const mark = h("span", { "aria-hidden": "true" }, { ascending: " ↑", descending: " ↓", none: "" }[order]);
      show(this.heads[index].firstElementChild, label(name), mark);
    });
  }
}

/** The columns of rows like this one, or null where it is shown as a whole. */
export function columnsOf(row) {
  if ("metadata" in row || "event_message" in row) return null;
  const names = Object.keys(row);
  // Behind what was chosen come the columns that place a row.
  const chosen = names.at(-1) === "id" ? names.slice(0, -1) : names;
  const rest = chosen.filter((name) => !FIRST.includes(name));
  return rest.length ? [...FIRST.filter((name) => chosen.includes(name)), ...rest] : null;
}

function label(name) {
  return name.replace(/^metadata\./, "m.");
}

/** Rows without a value come last; the oldest first is the exact reverse of the newest first. */
function inOrder(lines, { name, isDescending }) {
  const sign = isDescending ? -1 : 1;
  const given = name === "timestamp" && !isDescending ? [...lines].reverse() : lines;
  const keyed = given.map((line) => ({ line, key: keyOf(line.row[name]) }));
  keyed.sort((one, other) => {
    if (one.key === null || other.key === null) return (one.key === null) - (other.key === null);
    if (typeof one.key !== typeof other.key) return typeof one.key === "string" ? 1 : -1;
    if (typeof one.key !== "string") return sign * compareExactly(one.key.text, other.key.text);
    return sign * ((one.key > other.key) - (one.key < other.key));
  });
  return keyed.map(({ line }) => line);
}

function keyOf(value) {
  if (value === null || value === undefined) return null;
  return value instanceof ExactNumber || typeof value === "string" ? value : writeExactly(value);
}

function written(value) {
  if (value === null || value === undefined) return h("span", { class: "lx-null" }, "null");
  return typeof value === "string" ? value : writeExactly(value);
}
