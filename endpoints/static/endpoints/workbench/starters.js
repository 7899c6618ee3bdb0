/** Where nothing is written yet: a query to begin with for each log source, put in by a click. */

import { byId, h, show } from "./dom.js";

const LIMIT = 100;

/**
 * @param {import("./completion.js").Source[]} sources
 * @param {import("./editor.js").SqlEditor} editor
 */
export function showStarters(sources, editor) {
  const place = byId("wb-strip");
  place.hidden = !sources.length;
  const chip = (source) => {
    const onclick = () => {
      editor.replace(starter(source));
      editor.goTo(1, 1);
    };
    return h("button", { type: "button", class: "wb-chip", title: source.holds, onclick }, h("code", {}, source.name));
  };
  show(place, h("span", { class: "wb-hint" }, "Begin with the rows of"), sources.map(chip));
}

/**
 * @param {import("./completion.js").Source} source
 * @returns {string} the newest rows of one project since a moment
 */
export function starter({ table, columns }) {
  const named = ["timestamp", "id", "event_message"].filter((name) => columns.some((column) => column.name === name));
  const conditions = ["t.timestamp > @start"];
  if (columns.some(({ name }) => name === "project")) conditions.unshift("t.project = @project");
  return [
    `SELECT ${named.map((name) => `t.${name}`).join(", ")}`,
    `FROM ${table} AS t`,
    `WHERE ${conditions.join("\n  AND ")}`,
    "ORDER BY t.timestamp DESC",
    `LIMIT ${LIMIT}`,
  ].join("\n");
}
