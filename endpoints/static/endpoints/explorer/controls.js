/** The fields above the rows: what they say, what is changed in them, and what is wrong with them. */

import { button, byId, h, show } from "../shared/dom.js";
import { cause, offsetOf, select } from "../shared/failure.js";
import { changed, isRelative, lastOf } from "./address.js";
import { inOneLine } from "./lql_bar.js";
import { localZone, readField, showLocalTime, showsLocalTime, writeField, zoneName } from "./zone.js";

const ADVICE = {
  query_timeout: "Take a narrower time range, name a project, or filter by a column instead of a regular expression.",
  query_too_costly: "Take a narrower time range, name a project, or select fewer fields.",
  overloaded: "Run it again in a moment.",
};
const FIELDS = { project: "lx-project", range: "lx-start", source: "lx-source", path: "lx-values-field" };

/** A field that cannot be read; the message is for the operator. */
export class Unreadable extends Error {
  constructor(field, message) {
    super(message);
    this.field = field;
  }
}

export class Controls {
  /** `zoneChanged` is called when another clock is to be shown. */
  constructor(facts, run, zoneChanged) {
    this.facts = facts;
    this.shown = null; // the range that was run last
    const zone = byId("lx-zone");
    show(zone, h("option", { value: "utc" }, "UTC"), h("option", { value: "local" }, `Local (${localZone()})`));
    zone.value = showsLocalTime() ? "local" : "utc";
    this.nameZone();
    zone.addEventListener("change", () => {
      const custom = [readField(byId("lx-start").value), readField(byId("lx-end").value)];
      showLocalTime(zone.value === "local");
      this.nameZone();
      ["lx-start", "lx-end"].forEach((id, at) => (byId(id).value = custom[at] ? writeField(custom[at]) : ""));
      zoneChanged();
    });
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

  /** What is looked for; throws Unreadable. */
  read() {
    const range = byId("lx-range").value;
    const project = byId("lx-project").value.trim();
    if (this.facts.needsProject && !project) throw new Unreadable("lx-project", "Name the project whose rows you look for.");
    const custom = isRelative(range) ? { start: "", end: "" } : { start: this.moment("lx-start"), end: this.moment("lx-end") };
    if (custom.start && custom.start >= custom.end) throw new Unreadable("lx-end", "The range ends before it begins.");
    const lql = byId("lx-lql").value;
    return { source: byId("lx-source").value, project, lql, range, ...custom, redact: byId("lx-redact").checked };
  }

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

  /** The range as of now, where it ends now. */
  range({ range, start, end }) {
    return isRelative(range) ? lastOf(range, this.facts.now()) : { start: new Date(start), end: new Date(end) };
  }

  /** Make this the custom range. */
  narrow({ start, end }) {
    byId("lx-range").value = "custom";
    byId("lx-custom").hidden = false;
    byId("lx-start").value = writeField(start);
    byId("lx-end").value = writeField(end);
  }

  offerProjects(projects) {
    show(byId("lx-projects"), projects.map((project) => h("option", { value: project })));
  }

  nameZone() {
    show(byId("lx-start-label"), `From (${zoneName()})`);
    show(byId("lx-end-label"), `To (exclusive, ${zoneName()})`);
  }

  /** Choose a range; whether it can be run as it is, which a custom one cannot: it begins as what is on the screen. */
  chooseRange(range) {
    const isCustom = !isRelative(range);
    byId("lx-custom").hidden = !isCustom;
    if (isCustom) this.narrow(this.shown ?? lastOf("1h", this.facts.now()));
    return !isCustom;
  }

  moment(field) {
    const moment = readField(byId(field).value);
    if (moment === null) throw new Unreadable(field, "Choose a day and a time, or one of the ranges that end now.");
    return moment.toISOString();
  }
}

export function clearFailure() {
  say(null);
}

export function showUnreadable({ field, message }) {
  say(field, h("p", {}, message));
  byId(field).focus();
}

/** Say why a search failed, for LQL at its place in what was typed; `what` names the part where the rest did not fail. */
export function showFailure({ error }, lql, what = "") {
  const [detail] = error.details;
  const isLql = error.code === "invalid_lql";
  const isPlaced = isLql && detail?.line === 1 && typeof detail.column === "number";
  say(
    isLql ? "lx-lql" : (FIELDS[detail?.field] ?? null),
    h("p", {}, what, error.message, " ", ADVICE[error.code] ?? ""),
    isPlaced && placed(lql, detail.column),
    cause(error.operator),
  );
}

/** Say what is wrong, and mark the field that it is wrong in, if there is one. */
function say(field, ...text) {
  show(byId("lx-error"), ...text);
  for (const id of ["lx-project", "lx-start", "lx-end", "lx-lql", "lx-values-field"]) {
    if (id === field) byId(id).setAttribute("aria-invalid", "true");
    else byId(id).removeAttribute("aria-invalid");
  }
}

/** The query with what cannot be read marked; a click leads there. */
function placed(lql, column) {
  const offset = offsetOf(lql, 1, column);
  const wrong = /^\S+/.exec(lql.slice(offset))?.[0] ?? "";
  const go = () => select(byId("lx-lql"), offset, wrong.length);
  const rest = lql.slice(offset + wrong.length);
  return [
    h("pre", { class: "lx-query" }, lql.slice(0, offset), h("mark", { class: "lx-mark" }, wrong || "\u00a0"), rest),
    button("lx-link", go, `Go to column ${column}`),
  ];
}
