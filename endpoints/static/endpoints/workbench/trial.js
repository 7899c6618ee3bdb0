/** "Try it": one run or explanation at a time of the draft as typed, its time shown, really cancelled on request. */

import { button, byId, h, show, tabs } from "../shared/dom.js";
import { copy } from "../shared/copying.js";
import { cause, offsetOf, select } from "../shared/failure.js";
import { endRun, failureOf, newRunId, post, stopwatch } from "../shared/http.js";

import { writeRun } from "./shared_run.js";

const SENT_FIELDS = { "call.sql": "wb-sandbox-sql", "call.lql": "wb-sandbox-lql" };
const SANDBOX_FIELDS = { "wb-tab-sql": ["sql", "wb-sandbox-sql"], "wb-tab-lql": ["lql", "wb-sandbox-lql"] };

export class Trial {
  constructor(addresses, parts) {
    this.addresses = addresses;
    this.parts = parts;
    this.runId = null;
    this.queryTab = "wb-tab-stored";
    this.bringBack(parts.memory);
    byId("wb-form").addEventListener("submit", (event) => {
      event.preventDefault();
      void this.run();
    });
    byId("wb-explain").addEventListener("click", () => void this.explain());
    byId("wb-cancel").addEventListener("click", () => void this.cancel());
    byId("wb-share").addEventListener("click", () => void this.share());
    byId("wb-share").hidden = parts.page.id === null; // a new endpoint has no address yet
    byId("wb-try").addEventListener("keydown", (event) => this.key(event));
    byId("wb-try").addEventListener("input", forgetLink);
    // Nobody waits for the rows any more.
    window.addEventListener("pagehide", () => void this.cancel({ keepalive: true }));
  }

  bringBack(memory) {
    const { shared, page } = this.parts;
    if (shared) {
      byId("wb-redact").checked = shared.redact;
      const other = shared.version === page.version ? "" : ` It was version ${shared.version} when the link was made; this is version ${page.version}.`;
      this.say(`Filled in from the link: click Run.${other}`);
    }
    for (const [name, id] of Object.values(SANDBOX_FIELDS)) {
      byId(id).value = memory.kept[name];
      byId(id).addEventListener("input", () => memory.keep({ [name]: byId(id).value }));
    }
    const { tab } = memory.kept;
    const choose = tabs(document.querySelector("[data-tabs=query]"), (id) => {
      this.queryTab = id;
      this.parts.tableList.open(id in SANDBOX_FIELDS);
      memory.keep({ tab: id });
    });
    if (tab in SANDBOX_FIELDS) choose(tab);
  }

  /** Put the run into the page's address and copy that. */
  async share() {
    const { page, draft, inputs } = this.parts;
    const { sql = "", lql = "", redact } = this.call();
    const fragment = writeRun({ fields: inputs.typed(), sql, lql, redact, version: page.version });
    if (fragment === null) {
      this.say("This run is too long for a link.");
      return;
    }
    window.history.replaceState(null, "", fragment);
    const copied = await copy(h("pre", {}, window.location.href));
    const unsaved = draft.isChanged() ? " Your unsaved changes are not in it: save first." : "";
    this.say(`${copied}: who opens this link finds these arguments filled in and clicks Run.${unsaved}`);
  }

  run() {
    return this.attempt("run", (answer) => this.parts.results.showRun(answer, this.parts.draft.cacheSeconds()));
  }

  explain() {
    return this.attempt("explain", (answer) => this.parts.results.showPlan(answer));
  }

  /** Cancel the run; with `keepalive` the page may go before the answer comes. */
  async cancel(options = {}) {
    const runId = this.runId;
    if (runId === null) return;
    byId("wb-cancel").disabled = true;
    this.say("Cancelling …");
    try {
      await endRun(this.addresses.cancel, runId, () => this.runId === runId, options);
    } catch (error) {
      this.say(failureOf(error).message);
      byId("wb-cancel").disabled = false;
    }
  }

  /** Run or explain the draft; `done` shows the answer and gives what is said of it. */
  async attempt(word, done) {
    if (this.runId !== null) return;
    const draft = this.parts.draft.read();
    const stop = this.start(Number(draft.statement_timeout_seconds));
    try {
      const body = { draft, call: this.call(), run_id: this.runId };
      const answer = await post(this.addresses[word], body);
      this.say(done(answer));
      byId("wb-result-views").scrollIntoView({ block: "nearest", behavior: "smooth" });
    } catch (error) {
      this.failed(failureOf(error), stop());
    } finally {
      stop();
    }
  }

  call() {
    const call = { arguments: this.parts.inputs.read(), redact: byId("wb-redact").checked };
    const sandbox = SANDBOX_FIELDS[this.queryTab];
    return sandbox ? { ...call, [sandbox[0]]: byId(sandbox[1]).value } : call;
  }

  /** Show that it runs, and how long, of the seconds after which PostgreSQL cancels; what is returned ends that. */
  start(limit) {
    this.runId = newRunId();
    this.clearFailure();
    this.say("Running …");
    this.busy(true);
    const progress = byId("wb-progress");
    progress.max = limit > 0 ? limit : 1;
    const stop = stopwatch((seconds) => {
      show(byId("wb-elapsed"), `${seconds.toFixed(1)} s${limit > 0 ? ` of at most ${limit} s` : ""}`);
      progress.value = Math.min(seconds, progress.max);
    });
    return () => {
      this.runId = null;
      this.busy(false);
      show(byId("wb-elapsed"));
      return stop();
    };
  }

  failed({ error }, seconds) {
    if (error.code === "draft_cancelled") {
      this.say(`Cancelled after ${seconds.toFixed(1)} s. PostgreSQL has stopped the query.`);
      return;
    }
    this.say("Failed.");
    this.showFailure(error);
  }

  clearFailure() {
    byId("wb-error").hidden = true;
    show(byId("wb-error"));
    this.parts.inputs.mark([]);
  }

  /** Say what failed where it belongs: at the argument, at the line of the SQL, or above the result. */
  showFailure(error) {
    const { operator } = error;
    const details = error.details.filter(({ reason }) => !reason || !error.message.includes(reason));
    show(
      byId("wb-error"),
      operator ? cause(operator, "wb-error-message") : h("p", { class: "wb-error-message" }, error.message),
      operator && this.link(operator),
      details.length > 0 && h("ul", { class: "wb-error-details" }, details.map((one) => h("li", {}, this.detail(one)))),
      operator && h("p", {}, "To a consumer: ", error.message),
      h("p", { class: "wb-hint" }, facts(error)),
    );
    byId("wb-error").hidden = false;
    if (error.code === "invalid_parameters") this.parts.inputs.mark(error.details);
  }

  detail(detail) {
    if (typeof detail.severity === "string") return [detail.message, " ", this.link({ ...detail, field: "sql" })];
    return Object.entries(detail).map(([name, value]) => `${name}: ${value}`).join(", ");
  }

  link({ field, line, column }) {
    if (line === null) return null;
    const sent = SENT_FIELDS[field];
    const go = () => {
      if (sent) select(byId(sent), offsetOf(byId(sent).value, line, column), 1);
      else this.parts.editor.goTo(line, column);
    };
    return button("wb-link", go, `Go to line ${line}${sent ? " of the sandbox query" : ""}`);
  }

  busy(runs) {
    byId("wb-cancel").hidden = !runs;
    byId("wb-cancel").disabled = false;
    byId("wb-progress").hidden = !runs;
    byId("wb-run").disabled = runs;
    byId("wb-explain").disabled = runs;
  }

  say(text) {
    show(byId("wb-status"), text);
  }

  key(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      void this.run();
    }
  }
}

/** Take a run out of the address, which no longer describes what was typed. */
function forgetLink() {
  const { pathname, search, hash } = window.location;
  if (hash) window.history.replaceState(null, "", pathname + search);
}

function facts(error) {
  const { code, consumer_status: status, operator } = error;
  const parts = [code];
  if (operator?.sqlstate) parts.push(`SQLSTATE ${operator.sqlstate}`);
  if (status) parts.push(`a consumer would get ${status}`);
  // The service's log has the rest under this id.
  return [parts.join(" · "), error.request_id ? [" · request ", h("code", {}, error.request_id)] : null].flat();
}
