/** What is the same wherever a query fails: PostgreSQL's own words, and the way to a place in what was typed. */

import { h } from "./dom.js";

/** What PostgreSQL said, for those who may read it. */
export function cause(operator, css = null) {
  const line = (name, text) => (text ? h("p", { class: css }, h("strong", {}, `${name}: `), text) : null);
  return operator ? [line("PostgreSQL", operator.message), line("Hint", operator.hint)] : [];
}

/** Where a place is in a text: the service counts lines and characters from 1, browsers UTF-16 units from 0. */
export function offsetOf(text, line, column) {
  const lines = text.split("\n");
  const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  return before + [...(lines[line - 1] ?? "")].slice(0, (column ?? 1) - 1).join("").length;
}

/** Go to a place in a field and select `length` characters there. */
export function select(field, offset, length) {
  field.focus();
  field.setSelectionRange(offset, offset + length);
}
