/** The new rows of a search, asked for again and again. */

import { parseExactly } from "../shared/exact_json.js";
import { failureOf, hasCode, pause, post } from "../shared/http.js";

const PAUSE_MILLISECONDS = 2000; // where nothing is new, or nothing can be had
// What passes: nobody can be reached, or there is no room at the moment.
const PASSING = new Set(["unreachable", "overloaded", "database_unavailable"]);

export class Tail {
  /** `found` gets rows, the newest first; `failed` gets what ended it. */
  constructor(address, { found, failed }) {
    this.address = address;
    this.found = found;
    this.failed = failed;
    this.stop();
  }

  get isRunning() {
    return this.waiting !== null;
  }

  stop() {
    this.waiting?.abort();
    this.waiting = null;
  }

  /** Follow this exploration in place of the one before. */
  async follow(exploration) {
    this.stop();
    const waiting = (this.waiting = new AbortController());
    let token = "";
    while (waiting === this.waiting) {
      try {
        const answer = await post(this.address, { ...exploration, page_token: token }, { signal: waiting.signal });
        const page = parseExactly(answer.result_json);
        token = page.next;
        if (page.result.length && waiting === this.waiting) this.found(page.result);
        if (!page.result.length) await pause(PAUSE_MILLISECONDS);
      } catch (error) {
        if (error instanceof DOMException && error.name === "AbortError") return;
        const failure = failureOf(error);
        if (waiting !== this.waiting) return;
        if (hasCode(failure, "invalid_page_token")) token = "";
        else if (PASSING.has(failure.error.code)) await pause(PAUSE_MILLISECONDS);
        else {
          this.stop();
          this.failed(failure);
        }
      }
    }
  }
}
