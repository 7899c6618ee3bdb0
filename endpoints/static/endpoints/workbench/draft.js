/** The endpoint as typed: its form read as the draft that the service checks and runs, and rows added to it. */

import { byId } from "../shared/dom.js";

const ROWS = "#parameters-data > .form-group:not(.empty-form)";
const ORDERED = new Set(["integer", "number", "timestamp", "date"]);
const FIELDS = {
  minimum: (type) => ORDERED.has(type),
  maximum: (type) => ORDERED.has(type),
  pattern: (type) => type === "text" || type === "list of text",
  allowed_values: (type) => type !== "boolean",
};

export class DraftForm {
  /** `page` has the id of the saved endpoint, null for a new one, and the settings of a draft; `sql` is the editor's. */
  constructor(form, page, sql) {
    this.form = form;
    this.id = page.id;
    this.settings = page.settings;
    this.sql = sql;
    this.opened = JSON.stringify(this.read());
  }

  /** Whether something of it was changed since the page was opened. */
  isChanged() {
    return JSON.stringify(this.read()) !== this.opened;
  }

  /** The draft as the service reads it. */
  read() {
    const field = (name) => this.form.elements.namedItem(name);
    return {
      id: this.id,
      sql: this.sql(),
      parameters: this.parameters(),
      ...Object.fromEntries(this.settings.map((name) => [name, valueOf(field(name))])),
    };
  }

  /** How long a saved version of it may answer from the cache; 0 is never. */
  cacheSeconds() {
    return Number(this.form.elements.namedItem("cache_seconds")?.value) || 0;
  }

  /** The declared parameters that have a name, without rows marked for deletion. */
  parameters() {
    return this.rows().map(readRow).filter(({ name }) => name !== "");
  }

  /** Add a row that declares a parameter and go there. */
  declare(name, type) {
    const row = this.addRow(name, type);
    if (row) this.goToRow(row);
  }

  /** Add a row that declares a parameter; null where the form takes no more rows. */
  addRow(name, type) {
    const before = this.rows().length;
    document.querySelector("#parameters-group .add-row")?.click();
    const row = this.rows().at(-1);
    if (!row || this.rows().length === before) return null;
    set(row, "name", name);
    if (type) set(row, "type", type);
    return row;
  }

  /** Give a row the type that the SQL tells; whether that changes it. */
  retype(row, type) {
    if (!type || cell(row, "type").value === type) return false;
    set(row, "type", type);
    return true;
  }

  /** Whether a row declares the parameter. */
  has(name) {
    return this.rowOf(name) !== undefined;
  }

  /** Call when a field or the number of rows has changed. */
  onChange(changed) {
    this.form.addEventListener("input", changed);
    this.form.addEventListener("change", changed);
    new MutationObserver(changed).observe(byId("parameters-data"), { childList: true });
  }

  /** Go to the row of a parameter, if it has one; whether it has. */
  goTo(name) {
    const row = this.rowOf(name);
    if (row) this.goToRow(row);
    return row !== undefined;
  }

  rowOf(name) {
    return this.rows().find((one) => cell(one, "name")?.value.trim() === name);
  }

  goToField(name) {
    const field = document.getElementById(`id_${name}`);
    field?.scrollIntoView({ block: "center" });
    field?.focus({ preventScroll: true });
  }

  rows() {
    return [...document.querySelectorAll(ROWS)].filter((row) => !cell(row, "DELETE")?.checked);
  }

  /** Have the rows always show what their type can have, and their name as their title. */
  fitFields() {
    const fit = () => this.rows().forEach(fitRow);
    this.onChange(fit);
    fit();
  }

  goToRow(row) {
    row.scrollIntoView({ block: "center" });
    cell(row, "name")?.focus({ preventScroll: true });
  }
}

function valueOf(field) {
  return field.type === "checkbox" ? field.checked : field.value;
}

/** The input of a field in a row that declares a parameter; null where the row has none. */
function cell(row, name) {
  return row.querySelector(`[name$="-${name}"]`);
}

/** Fill in a field, as if it had been typed. */
function set(row, name, value) {
  const field = cell(row, name);
  field.value = value;
  for (const event of ["input", "change"]) field.dispatchEvent(new Event(event, { bubbles: true }));
}

function readRow(row) {
  const text = (name) => cell(row, name)?.value.trim() ?? "";
  return {
    name: text("name"),
    type: text("type") || "text",
    required: cell(row, "required")?.checked ?? false,
    default: cell(row, "default")?.value ?? "",
    allowed_values: filledLines(text("allowed_values")),
    minimum: text("minimum"),
    maximum: text("maximum"),
    pattern: cell(row, "pattern")?.value ?? "",
    description: text("description"),
  };
}

/** The lines of a text that hold something. */
export function filledLines(text) {
  return text.split("\n").map((line) => line.trim()).filter(Boolean);
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
