/** The shown rows in the order of a column: up, down, and with the third click as the query gave them. */

import { h } from "./dom.js";
import { ExactNumber } from "./exact_json.js";

const NEXT = { none: "ascending", ascending: "descending", descending: "none" };
const SIGNS = { none: "", ascending: " ▲", descending: " ▼" };

export class Sorting {
  /**
   * @param {Record<string, any>[]} rows
   * @param {() => void} changed
   */
  constructor(rows, changed) {
    this.rows = rows;
    this.changed = changed;
    /** @type {"none" | "ascending" | "descending"} */
    this.direction = "none";
    /** @type {HTMLElement | null} */
    this.header = null;
    this.column = "";
  }

  /**
   * @param {{name: string, type: string}} column
   * @param {string | null} css class
   * @returns {HTMLElement} its header, with the button that sorts
   */
  head({ name, type }, css) {
    const sign = h("span", { "aria-hidden": "true" });
    const button = h("button", { type: "button", class: "wb-sort", onclick: () => this.sort(header, name, sign) }, name, sign);
    const header = h("th", { scope: "col", class: css }, button, h("span", { class: "wb-type" }, type));
    return header;
  }

  sort(header, column, sign) {
    this.direction = this.column === column ? NEXT[this.direction] : "ascending";
    if (this.header) {
      this.header.removeAttribute("aria-sort");
      /** @type {HTMLElement} */ (this.header.querySelector("[aria-hidden]")).textContent = "";
    }
    [this.header, this.column] = [header, column];
    if (this.direction !== "none") header.setAttribute("aria-sort", this.direction);
    sign.textContent = SIGNS[this.direction];
    this.changed();
  }

  /** @returns {Record<string, any>[]} nulls last, whichever the direction */
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
  if (one instanceof ExactNumber && other instanceof ExactNumber) return one.value - other.value;
  const [left, right] = [one, other].map((value) => (typeof value === "string" ? value : JSON.stringify(value)));
  return left < right ? -1 : left > right ? 1 : 0;
}
