/** The endpoint as typed: its form read as the draft that the service checks and runs, and rows added to it. */

import { byId } from "./dom.js";
import { cell, readRow, set } from "./parameter_cells.js";

/** @typedef {import("./parameter_cells.js").Parameter} Parameter */

const FIELDS = [
  "name", "tenant_parameter", "max_rows", "statement_timeout_seconds", "planner_settings", "default_sandbox_table",
  "sandbox_dialect", "timestamps_as",
];
const SWITCHES = ["sandboxing", "redact_pii"];
const ROWS = "#parameters-data > .form-group:not(.empty-form)";

export class DraftForm {
  /**
   * @param {HTMLFormElement} form
   * @param {string | null} id of the saved endpoint
   * @param {() => string} sql what the editor holds
   */
  constructor(form, id, sql) {
    this.form = form;
    this.id = id;
    this.sql = sql;
  }

  /** @returns {Record<string, any>} the draft as the service reads it */
  read() {
    const field = (name) => /** @type {any} */ (this.form.elements.namedItem(name));
    return {
      id: this.id,
      sql: this.sql(),
      parameters: this.parameters(),
      ...Object.fromEntries(FIELDS.map((name) => [name, field(name)?.value ?? ""])),
      ...Object.fromEntries(SWITCHES.map((name) => [name, field(name)?.checked ?? false])),
    };
  }

  /** @returns {number} how long a saved version of it may answer from the cache; 0 is never */
  cacheSeconds() {
    return Number(/** @type {any} */ (this.form.elements.namedItem("cache_seconds"))?.value) || 0;
  }

  /** @returns {Parameter[]} the declared parameters that have a name, rows marked for deletion left out */
  parameters() {
    return this.rows().map(readRow).filter((parameter) => parameter.name !== "");
  }

  /**
   * Add a row that declares a parameter and go there.
   * @param {string} name
   * @param {string | null} type
   */
  declare(name, type) {
    const row = this.addRow(name, type);
    if (row) this.goToRow(row);
  }

  /**
   * Add a row that declares a parameter.
   * @param {string} name
   * @param {string | null} type
   * @returns {HTMLElement | null} null where the form takes no more rows
   */
  addRow(name, type) {
    const before = this.rows().length;
    const add = /** @type {HTMLElement | null} */ (document.querySelector("#parameters-group .add-row"));
    add?.click();
    const row = this.rows().at(-1);
    if (!row || this.rows().length === before) return null;
    set(row, "name", name);
    if (type) set(row, "type", type);
    return row;
  }

  /**
   * @param {string} name
   * @returns {boolean} whether a row declares it
   */
  has(name) {
    return this.rowOf(name) !== undefined;
  }

  /** @param {() => void} changed called when a field or the number of rows has changed */
  onChange(changed) {
    this.form.addEventListener("input", changed);
    this.form.addEventListener("change", changed);
    new MutationObserver(changed).observe(byId("parameters-data"), { childList: true });
  }

  /**
   * @param {string} name of a declared parameter
   * @returns {boolean} whether there is one
   */
  goTo(name) {
    const row = this.rowOf(name);
    if (row) this.goToRow(row);
    return row !== undefined;
  }

  rowOf(name) {
    return this.rows().find((one) => cell(one, "name")?.value.trim() === name);
  }

  /** @param {string} name of a field of the endpoint */
  goToField(name) {
    const field = document.getElementById(`id_${name}`);
    field?.scrollIntoView({ block: "center" });
    field?.focus({ preventScroll: true });
  }

  /** @returns {HTMLElement[]} */
  rows() {
    const rows = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(ROWS)]);
    return rows.filter((row) => !cell(row, "DELETE")?.checked);
  }

  goToRow(row) {
    row.scrollIntoView({ block: "center" });
    cell(row, "name")?.focus({ preventScroll: true });
  }
}
