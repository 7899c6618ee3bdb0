/** The checks of the draft: asked for after each pause of typing, and the list of problems that they found. */

import { button, byId, counted, h, show } from "../shared/dom.js";
import { failureOf, post } from "../shared/http.js";

const PAUSE_MILLISECONDS = 450;
const SIGNS = { error: "✕", warning: "!" };

/**
 * @typedef {{severity: "error" | "warning", field: string, parameter: string | null, message: string,
 *   line: number | null, column: number | null}} Problem
 */

/**
 * @typedef {object} Report
 * @property {boolean} ok
 * @property {Problem[]} problems
 * @property {{name: string, declared: boolean, guessed_type: string | null,
 *   places: {line: number, column: number}[]}[]} parameters
 * @property {{name: string, type: string}[] | null} columns
 * @property {{name: string, columns: {name: string, type: string}[]}[]} sandbox_tables
 */

/** Only the newest answer counts. */
export class Checker {
  /** `listener.checking` is told the time from the first key typed to the answer. */
  constructor(address, readDraft, listener) {
    this.address = address;
    this.readDraft = readDraft;
    this.listener = listener;
    this.newest = new AbortController();
    this.lastDraft = "";
    this.isAsking = false;
    this.timer = 0;
  }

  /** Ask again soon: something was typed. */
  soon() {
    this.listener.checking(true);
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.ask(), PAUSE_MILLISECONDS);
  }

  /** Forget what was asked: there is nothing to check. */
  rest() {
    this.newest.abort();
    this.lastDraft = "";
    this.isAsking = false;
  }

  /** Ask now, unless nothing is written or nothing has changed since the last answer. */
  async ask() {
    const draft = this.readDraft();
    if (!draft.sql.trim()) return;
    const text = JSON.stringify(draft);
    if (text === this.lastDraft) {
      this.listener.checking(this.isAsking);
      return;
    }
    this.newest.abort();
    const own = new AbortController();
    this.newest = own;
    this.lastDraft = text;
    this.isAsking = true;
    this.listener.checking(true);
    try {
      const report = await post(this.address, { draft }, { signal: own.signal });
      if (!own.signal.aborted) this.answered(() => this.listener.checked(report));
    } catch (error) {
      if (own.signal.aborted) return;
      this.lastDraft = "";
      const failure = failureOf(error);
      this.answered(() => this.listener.failed(failure));
    }
  }

  answered(tell) {
    this.isAsking = false;
    this.listener.checking(false);
    tell();
  }
}

/** Each problem says what it is in words, leads to its place, and may offer a remedy. */
export class ProblemList {
  constructor(editor, draft) {
    this.editor = editor;
    this.draft = draft;
    this.status = byId("wb-check-status");
    this.list = byId("wb-problem-list");
    this.place = byId("wb-problems");
    this.place.hidden = false;
  }

  /** Whether what is shown is about to be replaced. */
  busy(isChecking) {
    this.place.setAttribute("aria-busy", String(isChecking));
  }

  say(text) {
    if (this.status.textContent !== text) show(this.status, text); // else it would be read out again
  }

  /** Say it while there is nothing to check. */
  clear(text) {
    this.busy(false);
    this.say(text);
    show(this.list);
  }

  show(report) {
    const undeclared = new Map(report.parameters.filter((one) => !one.declared).map((one) => [one.name, one]));
    this.say(summary(report.problems));
    show(this.list, report.problems.map((problem) => this.item(problem, undeclared.get(problem.parameter ?? ""))));
  }

  /** `undeclared` is the parameter that the problem is about, where it lacks a declaration. */
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
    const { line, column, parameter, field } = problem;
    if (line !== null) return button("wb-link", () => this.editor.goTo(line, column), `Go to line ${line}`);
    if (parameter && !undeclared) return button("wb-link", () => this.draft.goTo(parameter), `Go to @${parameter}`);
    return isOfQuery(field) ? null : button("wb-link", () => this.draft.goToField(field), "Go to its field");
  }

  remedy({ name, guessed_type: type }) {
    return button("wb-link", () => this.draft.declare(name, type), `Declare @${name} as ${type ?? "text"}`);
  }
}

function where({ line, field }) {
  if (line !== null) return ` in line ${line}`;
  return isOfQuery(field) ? "" : ` in ${field.replaceAll("_", " ")}`;
}

function isOfQuery(field) {
  return field === "sql" || field === "parameters";
}

function summary(problems) {
  const errors = problems.filter((problem) => problem.severity === "error").length;
  const warnings = problems.length - errors;
  if (!problems.length) return "No problems: it can be saved.";
  const parts = [errors && counted(errors, "error"), warnings && counted(warnings, "warning")].filter(Boolean);
  if (!errors) return `${parts[0]}. It can be saved.`;
  const what = warnings ? (errors === 1 ? "the error" : "the errors") : errors === 1 ? "it" : "them";
  return `${parts.join(" and ")}: fix ${what} to save.`;
}
