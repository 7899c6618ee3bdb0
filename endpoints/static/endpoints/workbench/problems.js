/** The list of problems under the editor: each says what it is in words, leads to its place, and may offer a remedy. */

import { byId, counted, h, show } from "./dom.js";

/**
 * @typedef {object} Problem
 * @property {"error" | "warning"} severity
 * @property {string} field
 * @property {string | null} parameter
 * @property {string} message
 * @property {number | null} line
 * @property {number | null} column
 */

const SIGNS = { error: "✕", warning: "!" };

export class ProblemList {
  /**
   * @param {import("./editor.js").SqlEditor} editor
   * @param {import("./draft.js").DraftForm} draft
   */
  constructor(editor, draft) {
    this.editor = editor;
    this.draft = draft;
    this.status = byId("wb-check-status");
    this.list = byId("wb-problem-list");
    this.place = byId("wb-problems");
    this.place.hidden = false;
  }

  /** @param {boolean} isChecking what is shown is about to be replaced */
  busy(isChecking) {
    this.place.setAttribute("aria-busy", String(isChecking));
  }

  /** @param {string} text */
  say(text) {
    if (this.status.textContent !== text) show(this.status, text); // else it would be read out again
  }

  /** @param {string} text said where it is seen at once */
  tell(text) {
    this.say(text);
    this.status.scrollIntoView({ block: "center" });
  }

  /** @param {string} text said while there is nothing to check */
  clear(text) {
    this.busy(false);
    this.say(text);
    show(this.list);
  }

  /** @param {import("./checker.js").Report} report */
  show(report) {
    const undeclared = new Map(report.parameters.filter((one) => !one.declared).map((one) => [one.name, one]));
    this.say(summary(report.problems));
    show(this.list, report.problems.map((problem) => this.item(problem, undeclared.get(problem.parameter ?? ""))));
  }

  /**
   * @param {Problem} problem
   * @param {{name: string, guessed_type: string | null} | undefined} undeclared the parameter that it is about
   */
  item(problem, undeclared) {
    const name = problem.severity === "error" ? "Error" : "Warning";
    return h(
      "li",
      { class: `wb-problem wb-problem-${problem.severity}` },
      h("span", { class: "wb-sign", "aria-hidden": "true" }, SIGNS[problem.severity]),
      h(
        "div",
        { class: "wb-problem-text" },
        h("strong", {}, `${name}${where(problem)}: `),
        problem.message,
        h("span", { class: "wb-problem-actions" }, this.link(problem, undeclared), undeclared && this.remedy(undeclared)),
      ),
    );
  }

  link(problem, undeclared) {
    const go = (label, onclick) => h("button", { type: "button", class: "wb-link", onclick }, label);
    if (problem.line !== null) {
      return go(`Go to line ${problem.line}`, () => this.editor.goTo(problem.line, problem.column));
    }
    if (problem.parameter && !undeclared) return go(`Go to @${problem.parameter}`, () => this.draft.goTo(problem.parameter));
    if (problem.field !== "sql" && problem.field !== "parameters") return go("Go to its field", () => this.draft.goToField(problem.field));
    return null;
  }

  remedy({ name, guessed_type: type }) {
    const declare = () => this.draft.declare(name, type);
    return h("button", { type: "button", class: "wb-link", onclick: declare }, `Declare @${name} as ${type ?? "text"}`);
  }
}

function where({ line, field }) {
  if (line !== null) return ` in line ${line}`;
  return field === "sql" || field === "parameters" ? "" : ` in ${field.replaceAll("_", " ")}`;
}

function summary(problems) {
  const errors = problems.filter((problem) => problem.severity === "error").length;
  const warnings = problems.length - errors;
  if (!problems.length) return "No problems: it can be saved.";
  const parts = [errors && counted(errors, "error"), warnings && counted(warnings, "warning")].filter(Boolean);
  return `${parts.join(" and ")}. ${errors ? "It cannot be saved like this." : "It can be saved."}`;
}
