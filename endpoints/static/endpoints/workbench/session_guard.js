/** What was typed survives the end of the session: nothing is sent that would only lead to the login page. */

import { csrfToken } from "./http.js";

const OVER = 401;

export class SessionGuard {
  /**
   * @param {HTMLFormElement} form
   * @param {{refused: () => void, retry: () => void}} listener refused: the form was not sent; retry: somebody is back
   *   at this page, perhaps logged in again
   */
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
      /** @type {any} */ (form.elements.namedItem("csrfmiddlewaretoken")).value = csrfToken();
    }, { capture: true });
    window.addEventListener("focus", () => {
      if (this.isOver) retry();
    });
  }

  /** @param {number} status of the service's newest answer */
  answered(status) {
    this.isOver = status === OVER;
    this.hasRefused &&= this.isOver;
  }
}
