/** What was typed survives: saving the endpoint, which loads the page anew, and the end of the session. */

import { csrfToken } from "../shared/http.js";

const PREFIX = "endpoint-trial:";
const SESSION_OVER = 401;

/** What was typed into "Try it", kept in this browser tab until it is closed. */
export class PageMemory {
  /** A new endpoint has the id null. */
  constructor(id) {
    this.key = `${PREFIX}${id ?? "new"}`;
    this.kept = { arguments: {}, sql: "", lql: "", tab: "", ...(isJustAdded(id) ? read(`${PREFIX}new`) : {}), ...read(this.key) };
    if (id !== null) store((storage) => storage.removeItem(`${PREFIX}new`));
  }

  keep(changes) {
    Object.assign(this.kept, changes);
    store((storage) => storage.setItem(this.key, JSON.stringify(this.kept)));
  }
}

/** While the session is over nothing is sent that would only lead to the login page. */
export class SessionGuard {
  /** `refused` is called when the form was not sent, `retry` when somebody is back, perhaps logged in again. */
  constructor(form, { refused, retry }) {
    this.isOver = false;
    this.hasRefused = false;
    form.addEventListener("submit", (event) => {
      if (this.isOver) {
        event.preventDefault();
        event.stopImmediatePropagation();
        this.hasRefused = true;
        refused();
      }
      // A login in another tab has made a new one.
      form.elements.namedItem("csrfmiddlewaretoken").value = csrfToken();
    }, { capture: true });
    window.addEventListener("focus", () => {
      if (this.isOver) retry();
    });
  }

  /** Note the status of the service's newest answer. */
  answered(status) {
    this.isOver = status === SESSION_OVER;
    this.hasRefused &&= this.isOver;
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
