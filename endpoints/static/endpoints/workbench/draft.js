/** The endpoint as typed: its form read as the draft that the service checks and runs, and rows added to it. */

import { byId } from "./dom.js";
import { cell, readRow, set } from "./parameter_cells.js";

/** @typedef {import("./parameter_cells.js").Parameter} Parameter */

const ROWS = "#parameters-data > .form-group:not(.empty-form)";

/** @returns {string | boolean} what is typed in a field, or whether it is ticked */
function valueOf(/** @type {any} */ field) {
  return field.type === "checkbox" ? field.checked : field.value;
}

export class DraftForm {
  /**
   * @param {HTMLFormElement} form
   * @param {{id: string | null, settings: string[]}} page the saved endpoint, and the settings that a draft has
   * @param {() => string} sql what the editor holds
   */
  constructor(form, page, sql) {
    this.form = form;
    this.id = page.id;
    this.settings = page.settings;
    this.sql = sql;
  }

  /** @returns {Record<string, any>} the draft as the service reads it */
  read() {
    const field = (name) => this.form.elements.namedItem(name);
    return {
      id: this.id,
      sql: this.sql(),
      parameters: this.parameters(),
      ...Object.fromEntries(this.settings.map((name) => [name, valueOf(field(name))])),
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
