/** The parameters of the SQL in one line below the editor, each a way to its row; who lacks a row gets one by a click. */

import { byId, h, show } from "./dom.js";

export class ParameterStrip {
  /** @param {import("./draft.js").DraftForm} draft */
  constructor(draft) {
    this.draft = draft;
    this.place = byId("wb-strip");
  }

  /**
   * @param {import("./draft.js").Parameter[]} used
   * @param {import("./checker.js").Report} report
   */
  show(used, report) {
    const facts = new Map(report.parameters.map((one) => [one.name, one]));
    const undeclared = report.parameters.filter((one) => !one.declared && !this.draft.has(one.name));
    show(
      this.place,
      h("span", { class: "wb-hint" }, used.length ? "Parameters" : "No parameters: write @name where a caller's argument goes."),
      used.map((one) => this.chip(one, undeclared.includes(facts.get(one.name)))),
      undeclared.length > 1 ? this.declareAll(undeclared) : null,
    );
    this.place.hidden = false;
  }

  chip(parameter, isUndeclared) {
    const go = () => {
      if (!this.draft.goTo(parameter.name)) this.draft.declare(parameter.name, null);
    };
    const note = isUndeclared ? "not declared" : `${parameter.type}${parameter.required ? ", required" : ""}`;
    return h(
      "button",
      { type: "button", class: isUndeclared ? "wb-chip wb-chip-open" : "wb-chip", onclick: go },
      h("code", {}, `@${parameter.name}`),
      h("span", {}, ` ${note}`),
    );
  }

  declareAll(undeclared) {
    const declare = () => {
      for (const { name, guessed_type: type } of undeclared) this.draft.addRow(name, type);
    };
    return h("button", { type: "button", class: "wb-link", onclick: declare }, `Declare all ${undeclared.length}`);
  }
}
