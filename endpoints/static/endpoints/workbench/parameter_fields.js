/** The rows of parameters show what their type can have, and their name as their title. */

import { cell } from "./parameter_cells.js";

const ORDERED = new Set(["integer", "number", "timestamp", "date"]);
const FIELDS = {
  minimum: (type) => ORDERED.has(type),
  maximum: (type) => ORDERED.has(type),
  pattern: (type) => type === "text" || type === "list of text",
  allowed_values: (type) => type !== "boolean",
};

/** @param {import("./draft.js").DraftForm} draft */
export function fitParameterFields(draft) {
  const fit = () => {
    for (const row of draft.rows()) fitRow(row);
  };
  draft.onChange(fit);
  fit();
}

function fitRow(row) {
  const type = cell(row, "type")?.value ?? "text";
  for (const [name, fits] of Object.entries(FIELDS)) {
    const field = cell(row, name);
    // What has a value stays: it would be saved, and refused, unseen.
    if (field) field.closest(".field-line").hidden = !fits(type) && field.value === "" && !field.closest(".errors");
  }
  const title = row.querySelector("h3 strong");
  const name = cell(row, "name")?.value.trim();
  if (title && name) title.textContent = `@${name}`;
}
