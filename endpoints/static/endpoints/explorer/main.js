/** The log explorer: fields above, bars and rows below, all of it told by the page's address. */

import { byId, counted, show } from "../workbench/dom.js";
import { post, RequestFailed } from "../workbench/http.js";
import { readAddress, saveAddress, writeAddress } from "./address.js";
import { Controls, Unreadable } from "./controls.js";
import { FailureNote } from "./failure.js";
import { Knowledge } from "./knowledge.js";
import { keepRunning } from "./live.js";
import { LqlBar } from "./lql_bar.js";
import { Progress } from "./progress.js";
import { Results } from "./results.js";
import { Search } from "./search.js";

const DAY = 86_400_000;
const AROUND = 30_000; // milliseconds before and after a row

class Explorer {
  /** @param {Record<string, any>} started what the service says of this person's explorer */
  constructor(started) {
    this.started = started;
    const ahead = new Date(started.now).getTime() - Date.now();
    this.now = () => Date.now() + ahead;
    this.knowledge = new Knowledge(started.addresses.fields, () => this.learnt());
    const facts = { now: this.now, longest: started.max_days * DAY, needsProject: !started.every_project };
    this.controls = new Controls(facts, () => this.run());
    this.failure = new FailureNote(this.controls);
    this.progress = new Progress(() => this.search.cancel());
    this.results = new Results({
      addFilter: (keys, value, negated) => void this.addFilter(keys, value, negated),
      around: (moment) => this.lookAround(moment),
      lookAt: (range) => this.lookAt(range),
    });
    this.search = new Search(started.addresses, {
      rows: (rows, answer, isFirst) => this.found(rows, answer, isFirst),
      histogram: (answer) => this.results.showHistogram(answer, this.search.exploration.lql),
      failed: (failure, part) => this.failed(failure, part),
      notCancelled: ({ error }) => this.progress.say(error.message),
      over: () => this.progress.stop(),
    });
    new LqlBar(() => {
      const { source, known, seen } = this.knowledge;
      return { known, seen, levels: started.levels, sources: [source] };
    });
    if (started.add_address) byId("lx-save").addEventListener("click", (event) => this.save(event));
    byId("lx-more").addEventListener("click", () => this.more());
    window.addEventListener("popstate", () => this.open());
    keepRunning(() => this.run({ isNew: false }), () => this.search.isRunning);
  }

  /** Show what the page's address tells. */
  open() {
    this.controls.write(readAddress(window.location.search, this.started.sources));
    if (!this.started.every_project && !byId("lx-project").value) {
      void this.knowledge.learn(byId("lx-source").value);
      show(byId("lx-empty"), "Name a project, then run.");
      byId("lx-project").focus();
    } else this.run({ isNew: false });
  }

  run({ isNew = true } = {}) {
    this.failure.clear();
    this.hasFailed = false;
    let search;
    try {
      search = this.controls.read();
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      this.failure.showUnreadable(error);
      return;
    }
    const address = writeAddress(search);
    if (isNew && address !== window.location.search) window.history.pushState(null, "", address);
    void this.knowledge.learn(search.source);
    const { start, end } = (this.range = this.controls.range(search));
    const { source, project, lql, redact } = search;
    this.progress.start();
    void this.search.start({ source, project, lql, redact, start: start.toISOString(), end: end.toISOString() });
  }

  learnt() {
    const { source, known } = this.knowledge;
    this.controls.offerProjects(known.projects);
    if (this.results.isEmpty) this.results.showEmpty(this.range, source, known.newest);
  }

  found(rows, answer, isFirst) {
    this.knowledge.seen.add(this.results.showRows(rows, answer, isFirst));
    if (isFirst && !rows.length) this.results.showEmpty(this.range, this.knowledge.source, this.knowledge.known.newest);
    this.progress.say(`${counted(rows.length, "row")} in ${answer.seconds.toFixed(2)} s`);
  }

  failed(failure, part) {
    if (failure.error.code === "draft_cancelled") {
      this.results.stopped();
      this.progress.say("Cancelled: PostgreSQL has stopped the query.");
      return;
    }
    this.results.failed(part);
    const isAlone = part === "histogram" && !this.hasFailed;
    this.failure.show(failure, this.search.exploration.lql, isAlone ? "No histogram: " : "");
    this.hasFailed = !isAlone;
    if (!isAlone) this.progress.say("Failed.");
  }

  more() {
    const mark = this.results.list.mark;
    if (mark === null) return;
    byId("lx-more").disabled = true;
    this.progress.start();
    this.search.more(mark);
  }

  lookAt(range) {
    this.controls.narrow(range);
    this.run();
  }

  lookAround(moment) {
    byId("lx-lql").value = "";
    this.lookAt({ start: new Date(moment.getTime() - AROUND), end: new Date(moment.getTime() + AROUND) });
  }

  async addFilter(path, value, negated) {
    const field = byId("lx-lql");
    try {
      const { lql } = await post(this.started.addresses.filter, { lql: field.value, path, value, negated });
      field.value = lql;
      this.run();
    } catch (error) {
      if (!(error instanceof RequestFailed)) throw error;
      this.failure.show(error, field.value);
      field.scrollIntoView({ block: "nearest" });
    }
  }

  /** The link leads to what the fields say, run or not. */
  save(event) {
    try {
      byId("lx-save").href = saveAddress(this.started.add_address, this.controls.read());
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      event.preventDefault();
      this.failure.showUnreadable(error);
    }
  }
}

const started = document.getElementById("explorer");
if (started && document.getElementById("lx-form")) new Explorer(JSON.parse(started.textContent ?? "")).open();
