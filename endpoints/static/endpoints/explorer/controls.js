/** The fields above the rows: what they say, and what is changed in them. */

import { byId, h, show } from "../workbench/dom.js";
import { inOneLine } from "./lql_bar.js";
import { changed, isRelative, lastOf, readMoment, writeMoment } from "./range.js";

/** @typedef {import("./address.js").Search} Search */
/** @typedef {import("./range.js").Range} Range */

/** A field that cannot be read; the message is for the operator. */
export class Unreadable extends Error {
  /**
   * @param {string} field
   * @param {string} message
   */
  constructor(field, message) {
    super(message);
    this.field = field;
  }
}

export class Controls {
  /**
   * @param {{now: () => number, longest: number, needsProject: boolean}} facts
   * @param {() => void} run
   */
  constructor(facts, run) {
    this.facts = facts;
    byId("lx-form").addEventListener("submit", (event) => {
      event.preventDefault();
      run();
    });
    byId("lx-range").addEventListener("change", () => {
      if (this.chooseRange(byId("lx-range").value)) run();
      else byId("lx-start").focus();
    });
    for (const id of ["lx-source", "lx-project", "lx-redact"]) byId(id).addEventListener("change", run);
    const move = (id, change) =>
      byId(id).addEventListener("click", () => {
        this.narrow(changed(this.range(this.read()), change, facts.longest));
        run();
      });
    move("lx-earlier", { by: -1 });
    move("lx-later", { by: 1 });
    move("lx-wider", { times: 3 });
  }

  /**
   * @returns {Search}
   * @throws {Unreadable}
   */
  read() {
    const range = byId("lx-range").value;
    const project = byId("lx-project").value.trim();
    if (this.facts.needsProject && !project) throw new Unreadable("lx-project", "Name the project whose rows you look for.");
    const custom = isRelative(range) ? { start: "", end: "" } : { start: this.moment("lx-start"), end: this.moment("lx-end") };
    if (custom.start && custom.start >= custom.end) throw new Unreadable("lx-end", "The range ends before it begins.");
    const lql = byId("lx-lql").value;
    return { source: byId("lx-source").value, project, lql, range, ...custom, redact: byId("lx-redact").checked };
  }

  /** @param {Search} search */
  write(search) {
    byId("lx-source").value = search.source;
    byId("lx-project").value = search.project;
    byId("lx-lql").value = inOneLine(search.lql);
    byId("lx-redact").checked = search.redact;
    if (search.range === "custom") this.narrow(this.range(search));
    else {
      byId("lx-range").value = search.range;
      this.chooseRange(search.range);
    }
  }

  /**
   * @param {Search} search
   * @returns {Range} as of now, where it ends now
   */
  range({ range, start, end }) {
    return isRelative(range) ? lastOf(range, this.facts.now()) : { start: new Date(start), end: new Date(end) };
  }

  /** Make this the custom range. @param {Range} range */
  narrow({ start, end }) {
    byId("lx-range").value = "custom";
    byId("lx-custom").hidden = false;
    byId("lx-start").value = writeMoment(start);
    byId("lx-end").value = writeMoment(end);
  }

  /** @param {string[]} projects offered for the field */
  offerProjects(projects) {
    show(byId("lx-projects"), projects.map((project) => h("option", { value: project })));
  }

  /** @param {string | null} field the one that is wrong */
  mark(field) {
    for (const id of ["lx-project", "lx-start", "lx-end", "lx-lql"]) {
      if (id === field) byId(id).setAttribute("aria-invalid", "true");
      else byId(id).removeAttribute("aria-invalid");
    }
  }

  /** @returns {boolean} whether it is complete */
  chooseRange(range) {
    const isCustom = !isRelative(range);
    byId("lx-custom").hidden = !isCustom;
    if (isCustom && !byId("lx-start").value) this.narrow(lastOf("1h", this.facts.now()));
    return !isCustom;
  }

  moment(field) {
    const moment = readMoment(byId(field).value);
    if (moment === null) throw new Unreadable(field, "Write the time as 2026-01-31 08:00:00, in UTC.");
    return moment.toISOString();
  }
}
