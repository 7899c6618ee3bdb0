/** A search that failed: said in words, and for LQL at its place in what was typed. */

import { byId, h, show } from "../workbench/dom.js";

/** @typedef {import("../workbench/http.js").RequestFailed} RequestFailed */

const ADVICE = {
  query_timeout: "Take a narrower time range, name a project, or filter by a column instead of a regular expression.",
  overloaded: "Run it again in a moment.",
};
const FIELDS = { project: "lx-project", range: "lx-start", source: "lx-source" };

export class FailureNote {
  /** @param {import("./controls.js").Controls} controls */
  constructor(controls) {
    this.controls = controls;
    this.place = byId("lx-error");
  }

  clear() {
    show(this.place);
    this.controls.mark(null);
  }

  /** @param {import("./controls.js").Unreadable} error */
  showUnreadable(error) {
    show(this.place, h("p", {}, error.message));
    this.controls.mark(error.field);
    byId(error.field).focus();
  }

  /**
   * @param {RequestFailed} failure
   * @param {string} lql what was sent
   * @param {string} [what] failed, where the rest did not
   */
  show({ error }, lql, what = "") {
    const [detail] = error.details;
    const isPlaced = error.code === "invalid_lql" && detail?.line === 1 && typeof detail.column === "number";
    const operator = error.operator;
    show(
      this.place,
      h("p", {}, what, error.message, " ", ADVICE[error.code] ?? ""),
      isPlaced && this.placed(lql, detail.column),
      operator && h("p", {}, h("strong", {}, "PostgreSQL: "), operator.message),
    );
    const field = error.code === "invalid_lql" ? "lx-lql" : FIELDS[detail?.field] ?? null;
    this.controls.mark(field);
  }

  /** The query with what cannot be read marked; a click leads there. */
  placed(lql, column) {
    const characters = [...lql]; // the service counts characters, not UTF-16 units
    const before = characters.slice(0, column - 1).join("");
    const rest = lql.slice(before.length);
    const wrong = /^\S+/.exec(rest)?.[0] ?? "";
    const go = () => {
      const field = byId("lx-lql");
      field.focus();
      field.setSelectionRange(before.length, before.length + wrong.length);
    };
    return [
      h("pre", { class: "lx-query" }, before, h("mark", { class: "lx-mark" }, wrong || "\u00a0"), rest.slice(wrong.length)),
      h("button", { type: "button", class: "lx-link", onclick: go }, `Go to column ${column}`),
    ];
  }
}
