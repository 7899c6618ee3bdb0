/** The statement that PostgreSQL got: composed, with its bound values, and as whom it ran. */

import { h } from "./dom.js";
import { asText } from "./table.js";

/**
 * @param {{sql: string, arguments: {placeholder: string, name: string, value: any}[], role: string,
 *   search_path: string}} statement
 * @returns {HTMLElement}
 */
export function statementView(statement) {
  return h(
    "div",
    {},
    h("pre", { class: "wb-pre wb-code" }, statement.sql),
    statement.arguments.length ? bindings(statement.arguments) : h("p", { class: "wb-hint" }, "No values are bound."),
    h(
      "p",
      { class: "wb-hint" },
      "Role ",
      h("code", {}, statement.role),
      statement.search_path ? [", search_path ", h("code", {}, statement.search_path)] : null,
    ),
  );
}

function bindings(all) {
  const rows = all.map(({ placeholder, name, value }) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, placeholder),
      h("td", {}, name ? `@${name}` : "the service's own"),
      h("td", {}, value === null ? h("span", { class: "wb-null" }, "null") : asText(value)),
    ),
  );
  const head = ["Placeholder", "Parameter", "Value"].map((text) => h("th", { scope: "col" }, text));
  const table = h("table", { class: "wb-table" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows));
  return h("div", { class: "wb-scroll" }, table);
}
