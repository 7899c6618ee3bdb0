/** A run that failed, said where it belongs: at the argument, at the line of the SQL, or above the result. */

import { byId, h, show } from "./dom.js";

/** @typedef {import("./http.js").RequestFailed} RequestFailed */

const SENT_FIELDS = { "call.sql": "wb-sandbox-sql", "call.lql": "wb-sandbox-lql" };

export class FailureNote {
  /**
   * @param {import("./editor.js").SqlEditor} editor
   * @param {import("./inputs.js").ArgumentInputs} inputs
   */
  constructor(editor, inputs) {
    this.editor = editor;
    this.inputs = inputs;
    this.place = byId("wb-error");
  }

  clear() {
    this.place.hidden = true;
    show(this.place);
    this.inputs.mark([]);
  }

  /** @param {RequestFailed} failure */
  show({ error }) {
    const operator = error.operator;
    show(
      this.place,
      h("p", { class: "wb-error-message" }, error.message),
      operator && h("p", { class: "wb-error-cause" }, h("strong", {}, "PostgreSQL: "), operator.message),
      operator?.hint ? h("p", { class: "wb-error-cause" }, h("strong", {}, "Hint: "), operator.hint) : null,
      operator && this.link(operator),
      this.details(error.details.filter(({ reason }) => !reason || !error.message.includes(reason))),
      h("p", { class: "wb-hint" }, facts(error)),
    );
    this.place.hidden = false;
    if (error.code === "invalid_parameters") this.inputs.mark(error.details);
  }

  details(details) {
    if (!details.length) return null;
    return h("ul", { class: "wb-error-details" }, details.map((detail) => h("li", {}, this.detail(detail))));
  }

  detail(detail) {
    if (typeof detail.severity === "string") {
      const at = { field: "sql", line: detail.line, column: detail.column };
      return [detail.message, " ", this.link(at)];
    }
    return Object.entries(detail).map(([name, value], index) => `${index ? ", " : ""}${name}: ${value}`).join("");
  }

  link({ field, line, column }) {
    if (line === null) return null;
    const sent = SENT_FIELDS[field];
    const go = () => (sent ? select(byId(sent), line, column) : this.editor.goTo(line, column));
    const label = `Go to line ${line}${sent ? " of the sandbox query" : ""}`;
    return h("button", { type: "button", class: "wb-link", onclick: go }, label);
  }
}

function facts({ code, consumer_status: status, operator }) {
  const parts = [code];
  if (operator?.sqlstate) parts.push(`SQLSTATE ${operator.sqlstate}`);
  if (status) parts.push(`a consumer would get ${status}`);
  return parts.join(" · ");
}

function select(field, line, column) {
  const start = field.value.split("\n").slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  const offset = start + (column ?? 1) - 1;
  field.focus();
  field.setSelectionRange(offset, offset + 1);
}
