/**
 * A form outlives the session that it was opened in: the page says that it is over, and sends no form, which would only
 * lead to the login page, before somebody is logged in again.
 */

import { byId, h, show } from "./dom.js";
import { csrfToken, failureOf, get } from "./http.js";

const LOGGED_IN = 200;
const SESSION_OVER = 401;
const ASKED_AGAIN_MILLISECONDS = 30_000;
export const BACK = "session-back"; // the window's event, when a session that was over goes on

class SessionWatch {
  constructor(place) {
    this.place = place;
    this.isAsking = false;
    this.passes = false;
    document.addEventListener("submit", (event) => this.submitted(event), { capture: true });
    window.addEventListener("focus", () => void this.poll());
    document.addEventListener("visibilitychange", () => void this.poll());
    window.setInterval(() => void this.poll(), ASKED_AGAIN_MILLISECONDS);
  }

  submitted(event) {
    const form = event.target;
    const token = form.elements.namedItem("csrfmiddlewaretoken");
    if (form.method !== "post" || !token) return;
    if (this.passes) {
      token.value = csrfToken(); // a login in another tab has made a new one
      return;
    }
    event.preventDefault();
    event.stopImmediatePropagation();
    if (!this.isAsking) void this.send(form, event.submitter);
  }

  async send(form, submitter) {
    this.isAsking = true;
    const status = await this.ask();
    this.isAsking = false;
    if (status === SESSION_OVER) this.tellOver("Nothing was sent. ");
    else if (status !== LOGGED_IN) this.tell("Nothing was sent: the service does not respond. What you typed is still here.");
    else {
      this.passes = true;
      form.requestSubmit(submitter);
      this.passes = false;
    }
  }

  async poll() {
    if (document.visibilityState === "hidden") return;
    if ((await this.ask()) === SESSION_OVER && this.place.hidden) this.tellOver("");
  }

  /** The status of the service's answer; 0 is none. */
  async ask() {
    try {
      await get(this.place.dataset.session);
    } catch (error) {
      return failureOf(error).status;
    }
    if (!this.place.hidden) {
      this.place.hidden = true;
      window.dispatchEvent(new Event(BACK));
    }
    return LOGGED_IN;
  }

  tellOver(before) {
    const login = h("a", { href: this.place.dataset.login, target: "_blank" }, "Log in in another tab");
    this.tell(`${before}Your session is over. `, login, ", then go on here: what you typed stays.");
  }

  tell(...words) {
    show(this.place, ...words);
    this.place.hidden = false;
  }
}

new SessionWatch(byId("session-over"));
