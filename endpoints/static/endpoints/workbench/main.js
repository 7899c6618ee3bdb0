/**
 * The endpoint's page: the editor for everybody who may edit, "Try it" and the checks of the draft for who may run drafts;
 * and what each part of it is told when something was typed or answered.
 */

import { byId, show } from "../shared/dom.js";
import { failureOf, get, post } from "../shared/http.js";
import { BACK } from "../shared/session.js";
import { Checker, ProblemList } from "./checks.js";
import { DraftForm } from "./draft.js";
import { SqlEditor } from "./editor.js";
import { ArgumentInputs, TableList } from "./inputs.js";
import { PageMemory, VersionWatch } from "./keeping.js";
import { ParameterRows, ParameterStrip, showStarters } from "./parameters.js";
import { Results } from "./results.js";
import { readRun } from "./shared_run.js";
import { Trial } from "./trial.js";

const EMPTY = "Write one SELECT over the tables of schema logs. Ctrl+Space lists them; @name is an argument of the caller.";
const LIMITLESS = { allowed_values: [], minimum: "", maximum: "", pattern: "" };
const UNDECLARED = { type: "text", required: false, default: "", ...LIMITLESS, description: "" };

class Workbench {
  constructor(editor, draft, page) {
    const { addresses } = page;
    this.editor = editor;
    this.draft = draft;
    this.addresses = addresses;
    this.sources = [];
    const shared = page.id === null ? null : readRun(window.location.hash);
    const memory = new PageMemory(page.id, shared);
    this.inputs = new ArgumentInputs(memory);
    this.tableList = new TableList();
    this.problems = new ProblemList(editor, draft);
    this.rows = new ParameterRows(draft);
    this.strip = new ParameterStrip(draft);
    const { inputs, tableList } = this;
    const results = new Results();
    this.trial = new Trial(addresses, { editor, draft, inputs, results, tableList, memory, page, shared });
    this.checker = new Checker(addresses.check, () => draft.read(), {
      checking: (isChecking) => this.problems.busy(isChecking),
      checked: (report) => this.checked(report),
      failed: (error) => this.failed(error),
    });
    window.addEventListener(BACK, () => void this.checker.ask());
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

  checked(report) {
    // A parameter that was just typed gets its row; what was said before of its lack is out of date.
    if (!isUnreadable(report) && this.rows.follow(report.parameters)) void this.checker.ask();
    else this.show(report);
  }

  show(report) {
    this.problems.show(report);
    this.editor.mark(report.problems);
    this.tableList.show(report.sandbox_tables, this.draft.read().sandboxing);
    if (isUnreadable(report)) return;
    const used = this.usedParameters(report);
    this.strip.show(used, report);
    this.inputs.show(used);
  }

  failed(error) {
    this.problems.say(error.message);
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
      show(byId("wb-format-status"), `Completion knows no log sources: ${failureOf(error).message}`);
    }
    if (!this.editor.text.trim()) this.showEmpty();
  }
}

/** Where the text has an open string or comment nothing is known of its parameters: what is shown of them stays. */
function isUnreadable(report) {
  return !report.parameters.length && report.problems.some(({ severity, field }) => severity === "error" && field === "sql");
}

/** One button of the bar above the editor lays the SQL out anew. */
function offerFormatting(editor, address) {
  const button = byId("wb-format");
  const status = byId("wb-format-status");
  const format = async () => {
    const before = editor.text;
    button.disabled = true;
    try {
      const { sql } = await post(address, { sql: before });
      if (editor.text !== before) show(status, "You went on typing, so nothing was changed.");
      else if (sql === before) show(status, "It is laid out already.");
      else {
        editor.replace(sql);
        show(status, "Formatted. Undo with Ctrl+Z.");
      }
    } catch (error) {
      show(status, failureOf(error).message);
    } finally {
      button.disabled = false;
    }
  };
  button.addEventListener("click", () => void format());
  editor.onChange(() => show(status));
  byId("wb-toolbar").hidden = false;
}

function start() {
  const page = JSON.parse(byId("workbench").textContent);
  const editor = new SqlEditor(byId("id_sql"));
  const draft = new DraftForm(byId("endpoint_form"), page, () => editor.text);
  offerFormatting(editor, page.addresses.format);
  draft.fitFields();
  if (page.id !== null) new VersionWatch(page);
  editor.complete(() => [], () => draft.parameters());
  if (page.may_try) new Workbench(editor, draft, page).start();
}

// Ace's widget is made when everything has loaded.
if (document.readyState === "complete") start();
else window.addEventListener("load", start);
