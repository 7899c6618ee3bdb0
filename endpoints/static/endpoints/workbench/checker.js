/** Asks the service what is wrong with the draft, after each pause of typing; only the newest answer counts. */

import { afterPause } from "./dom.js";
import { post, RequestFailed } from "./http.js";

const PAUSE_MILLISECONDS = 450;

/**
 * @typedef {object} Report
 * @property {boolean} ok
 * @property {import("./problems.js").Problem[]} problems
 * @property {{name: string, declared: boolean, guessed_type: string | null,
 *   places: {line: number, column: number}[]}[]} parameters
 * @property {{name: string, type: string}[] | null} columns
 * @property {{name: string, columns: {name: string, type: string}[]}[]} sandbox_tables
 */

export class Checker {
  /**
   * @param {string} address
   * @param {() => Record<string, any>} readDraft
   * @param {{checking: (isChecking: boolean) => void, checked: (report: Report) => void,
   *   failed: (failure: RequestFailed) => void}} listener checking: from the first key typed to the answer
   */
  constructor(address, readDraft, listener) {
    this.address = address;
    this.readDraft = readDraft;
    this.listener = listener;
    this.newest = new AbortController();
    this.lastDraft = "";
    this.isAsking = false;
    this.afterPause = afterPause(() => void this.ask(), PAUSE_MILLISECONDS);
  }

  /** Ask again soon: something was typed. */
  soon() {
    this.listener.checking(true);
    this.afterPause();
  }

  /** Forget what was asked: there is nothing to check. */
  rest() {
    this.newest.abort();
    this.lastDraft = "";
    this.isAsking = false;
  }

  /** Ask now, unless nothing is written or nothing has changed since the last answer. */
  async ask() {
    const draft = this.readDraft();
    if (!draft.sql.trim()) return;
    const text = JSON.stringify(draft);
    if (text === this.lastDraft) {
      this.listener.checking(this.isAsking);
      return;
    }
    this.newest.abort();
    const own = new AbortController();
    this.newest = own;
    this.lastDraft = text;
    this.isAsking = true;
    this.listener.checking(true);
    try {
      const report = await post(this.address, { draft }, { signal: own.signal });
      if (!own.signal.aborted) this.answered(() => this.listener.checked(report));
    } catch (error) {
      if (own.signal.aborted) return;
      this.lastDraft = "";
      if (!(error instanceof RequestFailed)) throw error;
      this.answered(() => this.listener.failed(error));
    }
  }

  answered(tell) {
    this.isAsking = false;
    this.listener.checking(false);
    tell();
  }
}
