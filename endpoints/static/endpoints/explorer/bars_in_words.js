/** The bars of a histogram for who does not see them: each in a sentence, all of them as a table. */

import { counted, h } from "../workbench/dom.js";
import { writeMoment } from "./range.js";

/** @typedef {import("./histogram.js").Bar} Bar */

/**
 * @param {Bar} bar
 * @param {string} aggregate
 * @returns {string}
 */
export function described({ start, end, value }, aggregate) {
  return `${between(start, end)}: ${what(value, aggregate)}`;
}

/**
 * @param {Date} start
 * @param {Date} end
 * @returns {string}
 */
export function between(start, end) {
  return `${writeMoment(start)} to ${writeMoment(end)} UTC`;
}

/**
 * @param {Bar[]} bars
 * @param {string} aggregate
 * @returns {HTMLElement}
 */
export function barTable(bars, aggregate) {
  const head = ["From (UTC)", "To", aggregate === "count" ? "Rows" : aggregate];
  const lines = bars.map(({ start, end, value }) => [writeMoment(start), writeMoment(end), value === null ? "–" : written(value)]);
  return h(
    "table",
    { class: "lx-table" },
    h("thead", {}, h("tr", {}, head.map((text) => h("th", { scope: "col" }, text)))),
    h("tbody", {}, lines.map((line) => h("tr", {}, line.map((text) => h("td", {}, text))))),
  );
}

/**
 * @param {number} value
 * @returns {string}
 */
export function written(value) {
  return value.toLocaleString("en", { maximumFractionDigits: 3 });
}

function what(value, aggregate) {
  if (value === null) return "nothing";
  return aggregate === "count" ? counted(value, "row") : `${aggregate} ${written(value)}`;
}
