/** What a run or an explanation brought, in tabs. */

import { copyButton } from "../shared/copying.js";
import { byId, counted, h, rounded, show, table, tabs } from "../shared/dom.js";
import { layOut, parseExactly } from "../shared/exact_json.js";
import { showChart } from "./chart.js";
import { planView } from "./plan.js";
import { asText, tableView } from "./table.js";

const TABS_OF_RUN = ["wb-tab-table", "wb-tab-json", "wb-tab-chart"];

export class Results {
  constructor() {
    this.place = byId("wb-results");
    this.choose = tabs(document.querySelector("[data-tabs=result]"), (id) => {
      this.chosen = id;
    });
    this.empty();
  }

  empty() {
    for (const name of ["table", "json", "chart"]) show(byId(`wb-panel-${name}`), note("Run the query to see its rows."));
    show(byId("wb-panel-plan"), note("Explain the query to see how PostgreSQL runs it. It is run for that, too."));
    show(byId("wb-panel-statement"), note("What PostgreSQL got is shown after a run."));
  }

  /** Show what a run brought; what is returned is said of it. */
  showRun(run, cacheSeconds) {
    this.place.hidden = false;
    const rows = parseExactly(run.result_json).result;
    show(byId("wb-panel-table"), tableView(run.columns, rows));
    show(byId("wb-panel-json"), jsonView(run));
    showChart(byId("wb-panel-chart"), run.columns, rows);
    show(byId("wb-panel-statement"), statementView(run.statement));
    if (!TABS_OF_RUN.includes(this.chosen)) this.choose("wb-tab-table");
    return describeRun(run, cacheSeconds);
  }

  /** Show an explanation; what is returned is said of it. */
  showPlan(answer) {
    this.place.hidden = false;
    show(byId("wb-panel-plan"), planView(answer));
    show(byId("wb-panel-statement"), statementView(answer.statement));
    this.choose("wb-tab-plan");
    if (answer.execution_ms === null) return "Explained, and not run.";
    const total = answer.planning_ms + answer.execution_ms;
    return `Explained: ${rounded(answer.execution_ms, 1)} ms of ${rounded(total, 1)} ms were spent running it.`;
  }
}

function describeRun(run, cacheSeconds) {
  const saved = cacheSeconds ? `kept ${cacheSeconds.toLocaleString("en")} s` : "caching off";
  const parts = [
    counted(run.row_count, "row"),
    `${rounded(run.seconds, 3)} s, ${rounded(run.database_seconds, 3)} s of them in PostgreSQL`,
    `cache: ${run.cache}, as for every draft (once saved: ${saved})`,
  ];
  if (run.truncated) parts.push("extra rows are dropped and the response says so");
  if (run.shown_rows < run.row_count) parts.push(`the first ${run.shown_rows.toLocaleString("en")} are shown`);
  parts.push(...run.notes);
  return `${parts.join(" · ")}.`;
}

function jsonView(run) {
  const text = layOut(run.result_json);
  return h("div", { class: "wb-copyable" }, copyButton("wb-button wb-copy", "Copy", () => text), h("pre", { class: "wb-pre" }, text));
}

/** The statement that PostgreSQL got: composed, with its bound values, and as whom it ran. */
function statementView({ sql, arguments: bound, role, search_path: path }) {
  return h(
    "div",
    {},
    h("pre", { class: "wb-pre wb-code" }, sql),
    bound.length ? bindings(bound) : note("No values are bound."),
    h("p", { class: "wb-hint" }, "Role ", h("code", {}, role), path ? [", search_path ", h("code", {}, path)] : null),
  );
}

function bindings(all) {
  const lines = all.map(({ placeholder, name, value }) => [
    h("th", { scope: "row" }, placeholder),
    name ? `@${name}` : "the service's own",
    value === null ? h("span", { class: "wb-null" }, "null") : asText(value),
  ]);
  return h("div", { class: "wb-scroll" }, table("wb-table", ["Placeholder", "Parameter", "Value"], lines));
}

function note(text) {
  return h("p", { class: "wb-hint" }, text);
}
