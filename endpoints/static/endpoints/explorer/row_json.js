/** A row unfolded: its JSON, a value a line, each with buttons that filter for it or filter it out. */

import { h } from "../workbench/dom.js";
import { isObject, scalar } from "./fields_seen.js";

/** @typedef {(keys: string[], value: import("./fields_seen.js").Value, negated: boolean) => void} AddFilter */

const MAX_LINES = 500; // a page of rows with thousands of values each would be slow

/**
 * @param {Record<string, any>} row
 * @param {AddFilter} addFilter
 * @returns {HTMLElement}
 */
export function rowJson(row, addFilter) {
  const left = { lines: MAX_LINES };
  const whole = object(row, [], left, addFilter);
  const cut = left.lines < 0 ? h("p", { class: "lx-hint" }, `Only the first ${MAX_LINES} values; Copy JSON has all.`) : null;
  return h("div", { class: "lx-json" }, whole, cut);
}

function object(value, keys, left, addFilter) {
  const entries = Object.entries(value);
  if (!entries.length) return h("span", { class: "lx-empty-value" }, "{}");
  return h("ul", { class: "lx-object" }, entries.map(([key, part]) => line(key, part, [...keys, ...path(key, keys)], left, addFilter)));
}

/** A selected column is called after its path: metadata.request.path. */
function path(key, keys) {
  return keys.length === 0 && key.startsWith("metadata.") ? key.split(".") : [key];
}

function line(key, value, keys, left, addFilter) {
  return item(h("span", { class: "lx-key" }, `${key}:`), value, keys, left, addFilter);
}

function item(name, several, keys, left, addFilter) {
  left.lines -= 1;
  if (left.lines < 0) return null;
  // An array of one reads as what is in it, as it does in LQL.
  let value = several;
  while (Array.isArray(value) && value.length === 1) [value] = value;
  const isNested = isObject(value) || Array.isArray(value);
  return h("li", { class: isNested ? "lx-nested" : "lx-leaf" }, name, " ", part(value, keys, left, addFilter));
}

function part(value, keys, left, addFilter) {
  if (isObject(value)) return object(value, keys, left, addFilter);
  if (!Array.isArray(value)) return leaf(value, keys, addFilter);
  if (!value.length) return h("span", { class: "lx-empty-value" }, "[]");
  return h("ul", { class: "lx-array" }, value.map((element) => item(null, element, keys, left, addFilter)));
}

function leaf(value, keys, addFilter) {
  const { kind, text } = scalar(value);
  const shown = h("span", { class: `lx-scalar lx-${kind}` }, kind === "null" ? "null" : text === "" ? '""' : text);
  if (keys.join() === "timestamp") return shown; // a moment is looked around, not filtered for
  const what = `${keys.join(".")} ${text}`;
  const button = (sign, label, negated) =>
    h(
      "button",
      { type: "button", class: "lx-mini", title: label, "aria-label": `${label}: ${what}`, onclick: () => addFilter(keys, { kind, text }, negated) },
      sign,
    );
  return [shown, h("span", { class: "lx-minis" }, button("+", "Filter for", false), button("−", "Filter out", true))];
}
