/** "Try it": one run or explanation at a time of the draft as typed, its time shown, really cancelled on request. */

import { byId, show } from "./dom.js";
import { post, RequestFailed } from "./http.js";
import { seconds, showElapsed } from "./stopwatch.js";
import { tabs } from "./tabs.js";

const CANCEL_ATTEMPTS = 8;
const CANCEL_PAUSE_MS = 250;
const SANDBOX_FIELDS = { "wb-tab-sql": ["sql", "wb-sandbox-sql"], "wb-tab-lql": ["lql", "wb-sandbox-lql"] };

export class Trial {
  /**
   * @param {Record<string, string>} addresses
   * @param {{draft: import("./draft.js").DraftForm, inputs: import("./inputs.js").ArgumentInputs,
   *   failure: import("./failure.js").FailureNote, results: import("./results.js").Results,
   *   tableList: import("./tables.js").TableList, memory: import("./memory.js").PageMemory}} parts
   */
  constructor(addresses, parts) {
    this.addresses = addresses;
    this.parts = parts;
    /** @type {string | null} */
    this.runId = null;
    this.queryTab = "wb-tab-stored";
    this.bringBack(parts.memory);
    byId("wb-form").addEventListener("submit", (event) => {
      event.preventDefault();
      void this.run();
    });
    byId("wb-explain").addEventListener("click", () => void this.explain());
    byId("wb-cancel").addEventListener("click", () => void this.cancel());
    byId("wb-try").addEventListener("keydown", (event) => this.key(event));
    // Nobody waits for the rows any more.
    window.addEventListener("pagehide", () => void this.cancel({ keepalive: true }));
  }

  /** @param {import("./memory.js").PageMemory} memory */
  bringBack(memory) {
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

  run() {
    return this.attempt("run", (answer) => this.parts.results.showRun(answer, this.parts.draft.cacheSeconds()));
  }

  explain() {
    return this.attempt("explain", (answer) => this.parts.results.showPlan(answer));
  }

  /** @param {{keepalive?: boolean}} [options] keepalive: the page may go before the answer comes */
  async cancel(options = {}) {
    const runId = this.runId;
    if (runId === null) return;
    byId("wb-cancel").disabled = true;
    this.say("Cancelling …");
    try {
      await this.askToCancel(runId, options);
    } catch (error) {
      if (!(error instanceof RequestFailed)) throw error;
      this.say(error.error.code === "run_not_found" ? "It was not running, or is over." : error.message);
      byId("wb-cancel").disabled = false;
    }
  }

  /** The service knows of a run a moment after the click on Run: a Cancel that comes sooner is sent again. */
  async askToCancel(runId, options) {
    for (let attempt = 1; ; attempt++) {
      try {
        return await post(this.addresses.cancel, { run_id: runId }, options);
      } catch (error) {
        const isEarly = error instanceof RequestFailed && error.error.code === "run_not_found";
        if (!isEarly || attempt === CANCEL_ATTEMPTS || this.runId !== runId) throw error;
        await new Promise((resolve) => setTimeout(resolve, CANCEL_PAUSE_MS));
      }
    }
  }

  /**
   * @param {"run" | "explain"} word
   * @param {(answer: any) => string} done shows the answer, returns what is said of it
   */
  async attempt(word, done) {
    if (this.runId !== null) return;
    const started = performance.now();
    const draft = this.parts.draft.read();
    const stop = this.start(started, Number(draft.statement_timeout_seconds));
    try {
      const body = { draft, call: this.call(), run_id: this.runId };
      const answer = await post(this.addresses[word], body);
      this.say(done(answer));
      byId("wb-result-views").scrollIntoView({ block: "nearest", behavior: "smooth" });
    } catch (error) {
      if (!(error instanceof RequestFailed)) throw error;
      this.failed(error, started);
    } finally {
      stop();
    }
  }

  call() {
    const call = { arguments: this.parts.inputs.read(), redact: byId("wb-redact").checked };
    const sandbox = SANDBOX_FIELDS[this.queryTab];
    return sandbox ? { ...call, [sandbox[0]]: byId(sandbox[1]).value } : call;
  }

  start(started, limit) {
    this.runId = crypto.randomUUID?.() ?? [...crypto.getRandomValues(new Uint8Array(16))].join("-");
    this.parts.failure.clear();
    this.say("Running …");
    this.busy(true);
    const stop = showElapsed(started, limit);
    return () => {
      stop();
      this.runId = null;
      this.busy(false);
    };
  }

  failed(failure, started) {
    if (failure.error.code === "draft_cancelled") {
      this.say(`Cancelled after ${seconds(started).toFixed(1)} s. PostgreSQL has stopped the query.`);
      return;
    }
    this.say("Failed.");
    this.parts.failure.show(failure);
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
