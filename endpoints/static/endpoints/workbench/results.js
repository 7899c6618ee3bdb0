/** What a run or an explanation brought, in tabs. */

import { showChart } from "./chart_panel.js";
import { byId, counted, h, show } from "./dom.js";
import { layOut, parseExactly } from "./exact_json.js";
import { planView } from "./plan.js";
import { statementView } from "./statement.js";
import { tableView } from "./table.js";
import { tabs } from "./tabs.js";

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

  /**
   * @param {Record<string, any>} run the service's answer
   * @param {number} cacheSeconds of the draft
   * @returns {string} what is said of it
   */
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

  /**
   * @param {Record<string, any>} answer
   * @returns {string} what is said of it
   */
  showPlan(answer) {
    this.place.hidden = false;
    show(byId("wb-panel-plan"), planView(answer));
    show(byId("wb-panel-statement"), statementView(answer.statement));
    this.choose("wb-tab-plan");
    const total = answer.planning_ms + answer.execution_ms;
    return `Explained: ${answer.execution_ms.toFixed(1)} ms of ${total.toFixed(1)} ms were spent running it.`;
  }
}

function describeRun(run, cacheSeconds) {
  const saved = cacheSeconds ? `kept ${cacheSeconds.toLocaleString("en")} s` : "caching off";
  const parts = [
    counted(run.row_count, "row"),
    `${run.seconds.toFixed(3)} s, ${run.database_seconds.toFixed(3)} s of them in PostgreSQL`,
    `cache: ${run.cache}, as for every draft (once saved: ${saved})`,
  ];
  if (run.truncated) parts.push("cut at max rows");
  if (run.shown_rows < run.row_count) parts.push(`the first ${run.shown_rows.toLocaleString("en")} are shown`);
  return `${parts.join(" · ")}.`;
}

function jsonView(run) {
  const text = layOut(run.result_json);
  // Browsers offer the clipboard to pages over HTTPS and on localhost alone.
  const copy = async (event) => {
    await navigator.clipboard.writeText(text);
    event.target.textContent = "Copied";
  };
  const button = navigator.clipboard ? h("button", { type: "button", class: "wb-button wb-copy", onclick: copy }, "Copy") : null;
  return h("div", { class: "wb-copyable" }, button, h("pre", { class: "wb-pre" }, text));
}

function note(text) {
  return h("p", { class: "wb-hint" }, text);
}
