/** Starts the endpoint's page: the editor for everybody who may edit, checks and "Try it" for who may run drafts. */

import { Checker } from "./checker.js";
import { byId, h, show } from "./dom.js";
import { DraftForm } from "./draft.js";
import { SqlEditor } from "./editor.js";
import { FailureNote } from "./failure.js";
import { get, RequestFailed } from "./http.js";
import { ArgumentInputs } from "./inputs.js";
import { PageMemory } from "./memory.js";
import { fitParameterFields } from "./parameter_fields.js";
import { ParameterRows } from "./parameter_rows.js";
import { ParameterStrip } from "./parameter_strip.js";
import { ProblemList } from "./problems.js";
import { Results } from "./results.js";
import { TableList } from "./tables.js";
import { offerFormatting } from "./toolbar.js";
import { Trial } from "./trial.js";

const EMPTY = "Write one SELECT over the tables of schema logs. Ctrl+Space lists them; @name is an argument of the caller.";

/** @type {{id: string | null, may_try: boolean, addresses: Record<string, string>, parameter_types: string[]}} */
const page = JSON.parse(byId("workbench").textContent);

// Ace's widget is made when everything has loaded.
if (document.readyState === "complete") start();
else window.addEventListener("load", start);

function start() {
  const editor = new SqlEditor(byId("id_sql"));
  const draft = new DraftForm(byId("endpoint_form"), page.id, () => editor.text);
  offerFormatting(editor, page.addresses.format);
  editor.complete(() => [], () => draft.parameters());
  fitParameterFields(draft);
  if (page.may_try) startTrying(editor, draft);
}

/**
 * @param {SqlEditor} editor
 * @param {DraftForm} draft
 */
function startTrying(editor, draft) {
  const memory = new PageMemory(page.id);
  const inputs = new ArgumentInputs(memory);
  const tableList = new TableList();
  const problems = new ProblemList(editor, draft);
  const rows = new ParameterRows(draft);
  const strip = new ParameterStrip(draft);
  const failure = new FailureNote(editor, inputs);
  const trial = new Trial(page.addresses, {
    draft,
    inputs,
    failure,
    results: new Results(),
    tableList,
    memory,
  });

  /** @param {import("./checker.js").Report} report */
  const checked = (report) => {
    problems.show(report);
    editor.mark(report.problems);
    tableList.show(report.sandbox_tables, draft.read().sandboxing);
    if (!isUnreadable(report)) {
      rows.follow(report.parameters);
      const used = usedParameters(report, draft);
      strip.show(used, report);
      inputs.show(used);
    }
  };
  const checking = () => problems.say("Checking …");
  const checker = new Checker(page.addresses.check, () => draft.read(), { checking, checked, failed: (text) => problems.say(text) });
  const changed = () => (editor.text.trim() ? checker.soon() : showEmpty(problems, editor));

  editor.onRun(() => void trial.run());
  editor.onChange(changed);
  draft.onChange(changed);
  byId("wb-try").hidden = false;
  if (editor.text.trim()) void checker.ask();
  else showEmpty(problems, editor);
  void complete(editor, draft);
}

/** Where the text has an open string or comment nothing is known of its parameters: what is shown of them stays. */
function isUnreadable(report) {
  return !report.parameters.length && report.problems.some(({ severity, field }) => severity === "error" && field === "sql");
}

/** What the SQL uses, in its order, each as declared or as what it is without a declaration: optional text. */
function usedParameters(report, draft) {
  const declared = new Map(draft.parameters().map((one) => [one.name, one]));
  const undeclared = { type: "text", required: false, default: "", allowed_values: [], minimum: "", maximum: "", pattern: "", description: "" };
  return report.parameters.map(({ name }) => declared.get(name) ?? { name, ...undeclared });
}

function showEmpty(problems, editor) {
  problems.clear(EMPTY);
  editor.mark([]);
}

async function complete(editor, draft) {
  try {
    const { sources } = await get(page.addresses.catalogue);
    editor.complete(() => sources, () => draft.parameters());
  } catch (error) {
    if (!(error instanceof RequestFailed)) throw error;
    show(byId("wb-format-status"), h("span", {}, `Completion knows no log sources: ${error.message}`));
  }
}
