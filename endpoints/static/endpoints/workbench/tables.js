/** The tables of the sandbox with their columns, beside a consumer's query: a click puts a name into it. */

import { byId, h, show } from "./dom.js";

export class TableList {
  constructor() {
    this.place = byId("wb-tables");
    this.isOpen = false;
    /** @type {import("./checker.js").Report["sandbox_tables"]} */
    this.tables = [];
    this.sandboxing = false;
  }

  /** @param {boolean} isOpen whether a sandbox query is being written */
  open(isOpen) {
    this.isOpen = isOpen;
    this.draw();
  }

  /**
   * @param {import("./checker.js").Report["sandbox_tables"]} tables
   * @param {boolean} sandboxing whether the draft lets consumers write queries
   */
  show(tables, sandboxing) {
    if (tables.length || !sandboxing) this.tables = tables; // while the SQL has a fault the last ones still help
    this.sandboxing = sandboxing;
    this.draw();
  }

  draw() {
    this.place.hidden = !this.isOpen;
    if (!this.isOpen) return;
    if (!this.sandboxing) show(this.place, this.switchOn());
    else if (!this.tables.length) show(this.place, h("p", { class: "wb-hint" }, "The query has no CTE yet: begin it with WITH."));
    else show(this.place, this.tables.map((table) => this.table(table)));
  }

  switchOn() {
    const onclick = () => {
      const box = document.getElementById("id_sandboxing");
      box?.click();
    };
    const button = h("button", { type: "button", class: "wb-link", onclick }, "Switch it on");
    return h("p", { class: "wb-hint" }, "Sandboxing is off, so consumers may send no queries of their own. ", button);
  }

  table({ name, columns }) {
    const column = (one) => h("li", {}, this.name(one.name), h("span", { class: "wb-hint" }, ` ${one.type}`));
    return h(
      "details",
      { class: "wb-table-item", open: this.tables.length === 1 },
      h("summary", {}, h("code", {}, name), h("span", { class: "wb-hint" }, ` ${columns.length} columns`)),
      h("p", {}, this.name(name, "Insert the table's name")),
      h("ul", {}, columns.map(column)),
    );
  }

  name(text, label = text) {
    const insert = () => {
      const field = byId(byId("wb-panel-lql").hidden ? "wb-sandbox-sql" : "wb-sandbox-lql");
      field.setRangeText(text, field.selectionStart, field.selectionEnd, "end");
      field.focus();
    };
    return h("button", { type: "button", class: "wb-link wb-code", onclick: insert }, label);
  }
}
