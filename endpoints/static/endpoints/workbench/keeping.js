/** What was typed survives: saving the endpoint, which loads the page anew, and another's save. */

import { byId, h, show } from "../shared/dom.js";
import { failureOf, get } from "../shared/http.js";

const PREFIX = "endpoint-trial:";
const GONE = 404;
const ASKED_AGAIN_MILLISECONDS = 30_000;

/** What was typed into "Try it", kept in this browser tab until it is closed. */
export class PageMemory {
  /** A new endpoint has the id null; `shared` is the run in the page's address, which comes before what was kept. */
  constructor(id, shared) {
    this.key = `${PREFIX}${id ?? "new"}`;
    this.kept = { arguments: {}, sql: "", lql: "", tab: "", ...(isJustAdded(id) ? read(`${PREFIX}new`) : {}), ...read(this.key) };
    this.shared = shared?.fields ?? null;
    if (shared) {
      const tab = shared.sql ? "wb-tab-sql" : shared.lql ? "wb-tab-lql" : "";
      Object.assign(this.kept, { arguments: {}, sql: shared.sql, lql: shared.lql, tab });
    }
    if (id !== null) store((storage) => storage.removeItem(`${PREFIX}new`));
  }

  keep(changes) {
    Object.assign(this.kept, changes);
    store((storage) => storage.setItem(this.key, JSON.stringify(this.kept)));
  }
}

/**
 * Tells while somebody edits that another person has saved: asked when the page gets the focus, and every half minute
 * while it is seen. Saving asks once more in any case.
 */
export class VersionWatch {
  /** `page` has the id and version of the saved endpoint. */
  constructor({ id, version, addresses }) {
    this.version = version;
    this.address = `${addresses.latest}?id=${id}`;
    this.place = byId("wb-newer");
    this.timer = 0;
    window.addEventListener("focus", () => void this.ask());
    document.addEventListener("visibilitychange", () => void this.ask());
    this.later();
  }

  later() {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.ask(), ASKED_AGAIN_MILLISECONDS);
  }

  async ask() {
    this.later();
    if (document.visibilityState === "hidden") return;
    try {
      this.tell(await get(this.address));
    } catch (error) {
      // What else may fail says nothing about versions, and the next answer tells.
      if (failureOf(error).status === GONE) this.say("This endpoint has been deleted. Copy what you typed if you still need it.");
    }
  }

  tell({ version, saved_by: author, saved_at: moment, compare }) {
    if (version <= this.version) return;
    const when = `${moment.slice(0, 19).replace("T", " ")} UTC`;
    const link = h("a", { class: "wb-link", href: `${compare}&from=${this.version}`, target: "_blank" }, "See what has changed");
    const who = author ?? "Somebody, or a command,";
    this.say(`${who} saved version ${version} at ${when}; you are editing version ${this.version}. `, link, ". Your input stays here.");
  }

  say(...words) {
    const text = words.map((one) => one.textContent ?? one).join("");
    if (this.place.textContent === text) return; // else it would be read out again
    show(this.place, ...words);
    this.place.hidden = false;
  }
}

/** Whether the endpoint was a new one on the page before. */
function isJustAdded(id) {
  return id !== null && document.referrer.endsWith("/add/");
}

function store(act) {
  try {
    return act(window.sessionStorage);
  } catch (error) {
    if (!(error instanceof DOMException)) throw error; // full or switched off: nothing is kept then
    return null;
  }
}

function read(key) {
  try {
    return JSON.parse(store((storage) => storage.getItem(key)) ?? "{}");
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return {};
  }
}
