/** The log explorer: fields above, bars and rows below, all of it told by the page's address. */

import { byId, counted, h, rounded, show } from "../shared/dom.js";
import { failureOf, post, stopwatch } from "../shared/http.js";
import { chosenBy, isRelative, readAddress, saveAddress, writeAddress } from "./address.js";
import { clearFailure, Controls, showFailure, showUnreadable, Unreadable } from "./controls.js";
import { Downloads } from "./downloads.js";
import { Knowledge } from "./knowledge.js";
import { LqlBar } from "./lql_bar.js";
import { Results } from "./results.js";
import { SavedSearches } from "./saved.js";
import { Search } from "./search.js";
import { listenForShortcuts } from "./shortcuts.js";
import { Tail } from "./tail.js";
import { TopValues } from "./top_values.js";

const DAY = 86_400_000;
const AROUND = 30_000; // milliseconds before and after a row
const RECOUNT_MILLISECONDS = 10_000; // the histogram follows live rows more slowly
const SLOW_SECONDS = 0.5; // what is quicker needs no clock

class Explorer {
  constructor(started) {
    this.started = started;
    const ahead = new Date(started.now).getTime() - Date.now();
    this.now = () => Date.now() + ahead;
    this.knowledge = new Knowledge(started.addresses.fields, () => this.learnt());
    const facts = { now: this.now, longest: started.max_days * DAY, needsProject: !started.every_project };
    this.controls = new Controls(facts, () => this.run(), () => this.results.redraw());
    this.stopClock = () => {};
    this.sort = null; // of chosen columns
    this.results = new Results({
      addFilter: (keys, value, negated) => void this.addFilter(keys, value, negated),
      around: (moment) => this.lookAround(moment),
      lookAt: (range) => this.lookAt(range),
      topValues: (path) => this.topValues.open(path),
      severities: started.severities,
      chosen: () => chosenBy(this.search.exploration?.lql ?? ""),
      sort: () => this.sort,
      sorted: (sort) => this.sorted(sort),
    });
    this.search = new Search(started.addresses, {
      rows: (rows, answer, isFirst) => this.found(rows, answer, isFirst),
      histogram: (answer, range = {}) => this.counted(answer, range),
      failed: (failure, part) => this.failed(failure, part),
      notCancelled: ({ error }) => this.say(error.message),
      over: () => this.stopped(),
    });
    new LqlBar(() => {
      const { source, known, seen } = this.knowledge;
      return { known, seen, levels: started.levels, sources: [source] };
    });
    if (started.add_address) byId("lx-save").addEventListener("click", (event) => this.save(event));
    byId("lx-more").addEventListener("click", () => this.more());
    window.addEventListener("popstate", () => this.open());
    byId("lx-cancel").addEventListener("click", () => {
      byId("lx-cancel").disabled = true;
      this.search.cancel();
    });
    this.tail = new Tail(started.addresses.tail, {
      found: (rows) => this.came(rows),
      failed: (failure) => this.failed(failure, "tail"),
    });
    byId("lx-live").addEventListener("change", () => this.followOrStop());
    document.addEventListener("visibilitychange", () => this.followOrStop());
    this.beside(started);
    listenForShortcuts({
      "/": () => byId("lx-lql").focus(),
      r: () => this.run(),
      l: () => byId("lx-live").click(),
    });
  }

  /** What stands beside a search: top values, files, saved searches. */
  beside({ addresses, formats }) {
    const say = (text) => this.say(text);
    const failed = (failure) => this.toldFailure(failure);
    this.topValues = new TopValues({
      ask: (path, done) => this.ask(path, done),
      addFilter: (keys, value, negated) => void this.addFilter(keys, value, negated),
    });
    new Downloads({ addresses, formats, say, failed, exploration: () => this.downloaded() });
    new SavedSearches({ addresses, say, failed, query: () => this.query() });
  }

  /** Show what the page's address tells. */
  open() {
    const search = readAddress(window.location.search, this.started.sources);
    this.sort = search.sort;
    this.controls.write(search);
    if (!this.started.every_project && !byId("lx-project").value) {
      void this.knowledge.learn(byId("lx-source").value);
      show(byId("lx-empty"), "Name a project, then run.");
      byId("lx-project").focus();
    } else this.run({ isNew: false });
  }

  run({ isNew = true } = {}) {
    clearFailure();
    this.hasFailed = false;
    let search;
    try {
      search = this.controls.read();
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      showUnreadable(error);
      return;
    }
    const address = writeAddress({ ...search, sort: this.sort });
    if (isNew && address !== window.location.search) window.history.pushState(null, "", address);
    void this.knowledge.learn(search.source);
    const { start, end } = (this.range = this.controls.shown = this.controls.range(search));
    const { source, project, lql, redact } = search;
    this.showRunning();
    this.tail.stop();
    show(byId("lx-notes"));
    void this.search.start({ source, project, lql, redact, start: start.toISOString(), end: end.toISOString() });
    this.recountedAt = Date.now();
  }

  /** Follow the search that is shown, as long as that is wished, somebody looks, and its range ends now. */
  followOrStop() {
    const isWished = byId("lx-live").checked && !document.hidden;
    const endsNow = isRelative(byId("lx-range").value);
    if (byId("lx-live").checked && !endsNow) this.say("Live rows need a time range that ends now.");
    if (!isWished || !endsNow || !this.search.exploration) this.tail.stop();
    else if (!this.tail.isRunning) void this.tail.follow(this.search.exploration);
  }

  /** Show rows that came by themselves, and count them once in a while. */
  came(rows) {
    const added = this.results.showLive(rows);
    if (!added.length) return;
    this.knowledge.seen.add(added);
    this.say(`${counted(added.length, "new row")}`);
    if (Date.now() - this.recountedAt < RECOUNT_MILLISECONDS || this.search.isRunning) return;
    this.recountedAt = Date.now();
    const { start, end } = (this.range = this.controls.range(this.controls.read()));
    this.search.recount({ start: start.toISOString(), end: end.toISOString() });
  }

  /** Keep in the address how columns are sorted. */
  sorted(sort) {
    this.sort = sort;
    this.results.head();
    window.history.replaceState(null, "", this.query());
  }

  /** The address's query of the search that is shown, complete. */
  query() {
    return writeAddress({ ...readAddress(window.location.search, this.started.sources), sort: this.sort });
  }

  showRunning() {
    this.stopClock();
    byId("lx-cancel").hidden = false;
    byId("lx-cancel").disabled = false;
    byId("lx-rows").setAttribute("aria-busy", "true");
    const clock = byId("lx-elapsed");
    this.stopClock = stopwatch((seconds) => show(clock, seconds > SLOW_SECONDS && `${seconds.toFixed(1)} s …`));
  }

  stopped() {
    this.stopClock();
    show(byId("lx-elapsed"));
    byId("lx-cancel").hidden = true;
    byId("lx-rows").removeAttribute("aria-busy");
  }

  say(text) {
    show(byId("lx-status"), text);
  }

  learnt() {
    const { source, known } = this.knowledge;
    this.controls.offerProjects(known.projects);
    this.topValues.offer(known);
    if (this.results.isEmpty) this.results.showEmpty(this.range, source, known.newest);
  }

  found(rows, answer, isFirst) {
    this.knowledge.seen.add(this.results.showRows(rows, answer, isFirst));
    if (isFirst && !rows.length) this.results.showEmpty(this.range, this.knowledge.source, this.knowledge.known.newest);
    this.say(`${counted(rows.length, "row")} in ${rounded(answer.seconds, 2)} s`);
    if (!isFirst) return;
    this.followOrStop();
    if (this.search.exploration.lql.trim()) this.search.beside("notes", {}, (told) => this.showNotes(told.notes));
    if (this.topValues.path) this.topValues.again();
  }

  /** Show the bars, and ask for their severities where they are numbers of rows. */
  counted(answer, range) {
    this.results.showHistogram(answer, this.search.exploration.lql);
    const { total } = this.results.histogram;
    if (!total) return;
    if (total > this.started.max_severity_rows) this.results.showSeverities({ counts: null });
    else this.search.beside("severities", range, (told) => this.results.showSeverities(told));
  }

  showNotes(notes) {
    show(byId("lx-notes"), notes.length > 0 && h("ul", {}, notes.map((note) => h("li", {}, note))));
  }

  /** Count the values of a field of what was searched last, or of what the fields say now. */
  ask(path, done) {
    if (!this.search.exploration) {
      this.run();
      if (!this.search.exploration) return;
    }
    this.showRunning();
    this.search.beside("values", { path }, done);
  }

  /** What a file is made of: the search that was run, up to now where it ends now, and how many rows the page shows. */
  downloaded() {
    const search = this.search.exploration;
    if (!search) return null;
    const { start, end } = isRelative(byId("lx-range").value) ? this.controls.range(this.controls.read()) : this.range;
    return { search: { ...search, start: start.toISOString(), end: end.toISOString() }, shown: this.results.list.rows.length };
  }

  toldFailure(failure) {
    if (failure.error.code === "draft_cancelled") this.say("Cancelled: PostgreSQL has stopped the query.");
    else showFailure(failure, this.search.exploration?.lql ?? "");
  }

  failed(failure, part) {
    if (failure.error.code === "draft_cancelled") {
      this.results.stopped();
      if (part === "values") this.topValues.failed();
      this.say("Cancelled: PostgreSQL has stopped the query.");
      return;
    }
    if (part === "severities" || part === "notes") return; // the rows are there without them
    if (part === "values") {
      this.topValues.failed();
      showFailure(failure, this.search.exploration.lql, "No top values: ");
      return;
    }
    this.results.failed(part);
    if (part === "rows") this.topValues.failed();
    const isAlone = part === "histogram" && !this.hasFailed;
    showFailure(failure, this.search.exploration.lql, isAlone ? "No histogram: " : "");
    this.hasFailed = !isAlone;
    if (!isAlone) this.say("Failed.");
  }

  more() {
    const mark = this.results.list.mark;
    if (mark === null) return;
    byId("lx-more").disabled = true;
    this.showRunning();
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
      showFailure(failureOf(error), field.value);
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
      showUnreadable(error);
    }
  }
}

const started = document.getElementById("explorer");
if (started && document.getElementById("lx-form")) new Explorer(JSON.parse(started.textContent ?? "")).open();
