/** "Try it" and the checks of the draft: what each part of the page is told when something was typed or answered. */

import { Checker } from "./checker.js";
import { byId, h, show } from "./dom.js";
import { FailureNote } from "./failure.js";
import { get, RequestFailed } from "./http.js";
import { ArgumentInputs } from "./inputs.js";
import { PageMemory } from "./memory.js";
import { ParameterRows } from "./parameter_rows.js";
import { ParameterStrip } from "./parameter_strip.js";
import { ProblemList } from "./problems.js";
import { Results } from "./results.js";
import { SessionGuard } from "./session_guard.js";
import { showStarters } from "./starters.js";
import { TableList } from "./tables.js";
import { Trial } from "./trial.js";

const EMPTY = "Write one SELECT over the tables of schema logs. Ctrl+Space lists them; @name is an argument of the caller.";
const NOT_SENT = "Nothing was sent.";
const UNDECLARED = { type: "text", required: false, default: "", allowed_values: [], minimum: "", maximum: "", pattern: "", description: "" };

export class Workbench {
  /**
   * @param {import("./editor.js").SqlEditor} editor
   * @param {import("./draft.js").DraftForm} draft
   * @param {Record<string, string>} addresses
   */
  constructor(editor, draft, addresses) {
    this.editor = editor;
    this.draft = draft;
    this.addresses = addresses;
    /** @type {import("./completion.js").Source[]} */
    this.sources = [];
    const memory = new PageMemory(draft.id);
    this.inputs = new ArgumentInputs(memory);
    this.tableList = new TableList();
    this.problems = new ProblemList(editor, draft);
    this.rows = new ParameterRows(draft);
    this.strip = new ParameterStrip(draft);
    const failure = new FailureNote(editor, this.inputs);
    const { inputs, tableList } = this;
    this.trial = new Trial(addresses, { draft, inputs, failure, results: new Results(), tableList, memory });
    this.checker = new Checker(addresses.check, () => draft.read(), {
      checking: (isChecking) => this.problems.busy(isChecking),
      checked: (report) => this.checked(report),
      failed: (error) => this.failed(error),
    });
    this.guard = new SessionGuard(draft.form, {
      refused: () => this.problems.tell(`${NOT_SENT} Your session is over. Log in again in another tab, then save here.`),
      retry: () => void this.checker.ask(),
    });
  }

  start() {
    const changed = () => (this.editor.text.trim() ? this.checker.soon() : this.showEmpty());
    this.editor.onChange(changed);
    this.draft.onChange(changed);
    this.editor.onRun(() => void this.trial.run());
    this.editor.complete(() => this.sources, () => this.draft.parameters());
    byId("wb-try").hidden = false;
    if (this.editor.text.trim()) void this.checker.ask();
    else this.showEmpty();
    void this.readCatalogue();
  }

  /** @param {import("./checker.js").Report} report */
  checked(report) {
    this.guard.answered(200);
    this.problems.show(report);
    this.editor.mark(report.problems);
    this.tableList.show(report.sandbox_tables, this.draft.read().sandboxing);
    if (isUnreadable(report)) return;
    this.rows.follow(report.parameters);
    const used = this.usedParameters(report);
    this.strip.show(used, report);
    this.inputs.show(used);
  }

  /** @param {RequestFailed} error */
  failed(error) {
    this.guard.answered(error.status);
    this.problems.say(this.guard.hasRefused ? `${NOT_SENT} ${error.message}` : error.message);
  }

  showEmpty() {
    this.checker.rest();
    this.problems.clear(EMPTY);
    this.editor.mark([]);
    this.inputs.show([]);
    showStarters(this.sources, this.editor);
  }

  /** What the SQL uses, in its order, each as declared or as what it is without a declaration: optional text. */
  usedParameters(report) {
    const declared = new Map(this.draft.parameters().map((one) => [one.name, one]));
    return report.parameters.map(({ name }) => declared.get(name) ?? { name, ...UNDECLARED });
  }

  async readCatalogue() {
    try {
      this.sources = (await get(this.addresses.catalogue)).sources;
    } catch (error) {
      if (!(error instanceof RequestFailed)) throw error;
      show(byId("wb-format-status"), h("span", {}, `Completion knows no log sources: ${error.message}`));
    }
    if (!this.editor.text.trim()) this.showEmpty();
  }
}

/** Where the text has an open string or comment nothing is known of its parameters: what is shown of them stays. */
function isUnreadable(report) {
  return !report.parameters.length && report.problems.some(({ severity, field }) => severity === "error" && field === "sql");
}
