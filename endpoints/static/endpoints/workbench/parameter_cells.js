/** One row of the form that declares a parameter: its fields by name, read and filled in. */

/**
 * @typedef {object} Parameter
 * @property {string} name
 * @property {string} type
 * @property {boolean} required
 * @property {string} default
 * @property {string[]} allowed_values
 * @property {string} minimum
 * @property {string} maximum
 * @property {string} pattern
 * @property {string} description
 */

/**
 * @param {HTMLElement} row
 * @param {string} name of a field
 * @returns {any} its input, null where the row has none
 */
export function cell(row, name) {
  return row.querySelector(`[name$="-${name}"]`);
}

/**
 * Fill in a field, as if it had been typed.
 * @param {HTMLElement} row
 * @param {string} name
 * @param {string} value
 */
export function set(row, name, value) {
  const field = cell(row, name);
  field.value = value;
  for (const event of ["input", "change"]) field.dispatchEvent(new Event(event, { bubbles: true }));
}

/**
 * @param {HTMLElement} row
 * @returns {Parameter}
 */
export function readRow(row) {
  const text = (name) => cell(row, name)?.value.trim() ?? "";
  const lines = text("allowed_values").split("\n");
  return {
    name: text("name"),
    type: text("type") || "text",
    required: cell(row, "required")?.checked ?? false,
    default: cell(row, "default")?.value ?? "",
    allowed_values: lines.map((line) => line.trim()).filter(Boolean),
    minimum: text("minimum"),
    maximum: text("maximum"),
    pattern: cell(row, "pattern")?.value ?? "",
    description: text("description"),
  };
}
