/** Rows as a table that scrolls in its own box, as many at a time as a browser draws quickly; each unfolds into JSON. */

import { counted, h } from "./dom.js";
import { ExactNumber, layOut } from "./exact_json.js";
import { Sorting } from "./sorting.js";

const ROWS_AT_ONCE = 200;
const CUT_CHARACTERS = 300; // in a cell; the row unfolded shows them all

/**
 * @param {{name: string, type: string}[]} columns
 * @param {Record<string, any>[]} rows
 * @returns {HTMLElement}
 */
export function tableView(columns, rows) {
  const body = h("tbody");
  let shown = 0;
  const more = h("button", { type: "button", class: "wb-button" });
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
  more.addEventListener("click", grow);
  grow();
  const unfolding = h("th", { scope: "col", class: "wb-fold" }, h("span", { class: "wb-unseen" }, "Whole row"));
  const head = columns.map((column) => sorting.head(column, isNumeric(column.type) ? "wb-number" : null));
  const table = h("table", { class: "wb-table" }, h("thead", {}, h("tr", {}, unfolding, head)), body);
  const empty = rows.length ? null : h("p", { class: "wb-hint" }, "No rows.");
  return h("div", {}, h("div", { class: "wb-scroll" }, table), empty, more);
}

/**
 * @param {string} type of PostgreSQL
 * @returns {boolean}
 */
export function isNumeric(type) {
  return /^(smallint|integer|bigint|numeric|real|double precision)/.test(type);
}

/**
 * A value as text; null and nested values as JSON writes them.
 * @param {any} value
 * @returns {string}
 */
export function asText(value) {
  if (typeof value === "string") return value;
  return value instanceof ExactNumber ? value.text : JSON.stringify(value) ?? "null";
}

function line(columns, row, number) {
  const button = h("button", { type: "button", class: "wb-unfold", "aria-expanded": "false", "aria-label": `Row ${number} whole` }, "▸");
  const folded = h("tr", {}, h("td", { class: "wb-fold" }, button), columns.map(({ name, type }) => cell(row[name], type)));
  button.addEventListener("click", () => unfold(button, folded, columns, row));
  return folded;
}

function unfold(button, folded, columns, row) {
  const opens = button.getAttribute("aria-expanded") === "false";
  button.setAttribute("aria-expanded", String(opens));
  button.textContent = opens ? "▾" : "▸";
  if (!opens) {
    folded.nextElementSibling?.remove();
    return;
  }
  const values = columns.map(({ name }) => [h("dt", {}, name), h("dd", {}, whole(row[name]))]);
  folded.after(h("tr", { class: "wb-unfolded" }, h("td", { colspan: columns.length + 1 }, h("dl", {}, values.flat()))));
}

function whole(value) {
  if (value === null || value === undefined) return h("span", { class: "wb-null" }, "null");
  return h("pre", { class: "wb-value" }, isNested(value) ? layOut(JSON.stringify(value)) : asText(value));
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
