/** Rows as a table that scrolls in its own box, as many at a time as a browser draws quickly; each unfolds into JSON. */

import { button, counted, h } from "../shared/dom.js";
import { compareExactly, ExactNumber, layOut, writeExactly } from "../shared/exact_json.js";

const ROWS_AT_ONCE = 200;
const CUT_CHARACTERS = 300; // in a cell; the row unfolded shows them all
const NEXT = { none: "ascending", ascending: "descending", descending: "none" };
const SIGNS = { none: "", ascending: " ▲", descending: " ▼" };

export function tableView(columns, rows) {
  const body = h("tbody");
  let shown = 0;
  const sorting = new Sorting(rows, () => redraw());
  const grow = () => {
    body.append(...sorting.sorted().slice(shown, shown + ROWS_AT_ONCE).map((row, index) => line(columns, row, shown + index + 1)));
    shown = Math.min(rows.length, shown + ROWS_AT_ONCE);
    const left = rows.length - shown;
    more.textContent = `Show the next ${Math.min(left, ROWS_AT_ONCE)} of ${counted(left, "more row")}`;
    more.hidden = left <= 0;
  };
  const redraw = () => {
    shown = 0;
    body.replaceChildren();
    grow();
  };
  const more = button("wb-button", grow);
  grow();
  const unfolding = h("th", { scope: "col", class: "wb-fold" }, h("span", { class: "sr-only" }, "Whole row"));
  const head = columns.map((column) => sorting.head(column, isNumeric(column.type) ? "wb-number" : null));
  const table = h("table", { class: "wb-table" }, h("thead", {}, h("tr", {}, unfolding, head)), body);
  const empty = rows.length ? null : h("p", { class: "wb-hint" }, "No rows.");
  return h("div", {}, h("div", { class: "wb-scroll" }, table), empty, more);
}

export function isNumeric(type) {
  return /^(smallint|integer|bigint|numeric|real|double precision)/.test(type);
}

/** A value as text; null and nested values as JSON writes them. */
export function asText(value) {
  if (typeof value === "string") return value;
  return value instanceof ExactNumber ? value.text : writeExactly(value) ?? "null";
}

function line(columns, row, number) {
  const label = { "aria-expanded": "false", "aria-label": `Row ${number} whole` };
  const fold = h("button", { type: "button", class: "wb-unfold", ...label, onclick: () => unfold(fold, folded, columns, row) }, "▸");
  const folded = h("tr", {}, h("td", { class: "wb-fold" }, fold), columns.map(({ name, type }) => cell(row[name], type)));
  return folded;
}

function unfold(fold, folded, columns, row) {
  const opens = fold.getAttribute("aria-expanded") === "false";
  fold.setAttribute("aria-expanded", String(opens));
  fold.textContent = opens ? "▾" : "▸";
  if (!opens) {
    folded.nextElementSibling?.remove();
    return;
  }
  const values = columns.map(({ name }) => [h("dt", {}, name), h("dd", {}, whole(row[name]))]);
  folded.after(h("tr", { class: "wb-unfolded" }, h("td", { colspan: columns.length + 1 }, h("dl", {}, values.flat()))));
}

function whole(value) {
  if (value === null || value === undefined) return h("span", { class: "wb-null" }, "null");
  return h("pre", { class: "wb-value" }, isNested(value) ? layOut(writeExactly(value)) : asText(value));
}

function isNested(value) {
  return typeof value === "object" && !(value instanceof ExactNumber);
}

function cell(value, type) {
  if (value === null || value === undefined) return h("td", {}, h("span", { class: "wb-null" }, "null"));
  const text = asText(value);
  const cut = text.length > CUT_CHARACTERS ? `${text.slice(0, CUT_CHARACTERS)} …` : text;
  return h("td", { class: isNumeric(type) ? "wb-number" : null }, cut);
}

/** The shown rows in the order of a column: up, down, and with the third click as the query gave them. */
class Sorting {
  constructor(rows, changed) {
    this.rows = rows;
    this.changed = changed;
    this.direction = "none";
    this.header = null;
    this.column = "";
  }

  /** A column's header, with the button that sorts. */
  head({ name, type }, css) {
    const sign = h("span", { "aria-hidden": "true" });
    const sort = button("wb-sort", () => this.sort(header, name, sign), name, sign);
    const header = h("th", { scope: "col", class: css }, sort, h("span", { class: "wb-type" }, type));
    return header;
  }

  sort(header, column, sign) {
    this.direction = this.column === column ? NEXT[this.direction] : "ascending";
    if (this.header) {
      this.header.removeAttribute("aria-sort");
      this.header.querySelector("[aria-hidden]").textContent = "";
    }
    [this.header, this.column] = [header, column];
    if (this.direction !== "none") header.setAttribute("aria-sort", this.direction);
    sign.textContent = SIGNS[this.direction];
    this.changed();
  }

  /** The rows in order, nulls last, whichever the direction. */
  sorted() {
    if (this.direction === "none") return this.rows;
    const sign = this.direction === "ascending" ? 1 : -1;
    const isNull = (row) => row[this.column] === null || row[this.column] === undefined;
    const present = this.rows.filter((row) => !isNull(row));
    present.sort((one, other) => sign * compare(one[this.column], other[this.column]));
    return [...present, ...this.rows.filter(isNull)];
  }
}

function compare(one, other) {
  if (one instanceof ExactNumber && other instanceof ExactNumber) return compareExactly(one.text, other.text);
  // Beside numbers, the texts NaN and Infinity stand where PostgreSQL sorts them: NaN behind all.
  if (one instanceof ExactNumber || other instanceof ExactNumber) return rank(one) - rank(other);
  const [left, right] = [one, other].map(asText);
  return left < right ? -1 : left > right ? 1 : 0;
}

function rank(value) {
  if (value instanceof ExactNumber) return 0;
  return value === "-Infinity" ? -1 : 1 + Number(value === "NaN");
}
