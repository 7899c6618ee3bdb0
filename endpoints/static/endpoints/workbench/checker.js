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
   * @param {{checking: () => void, checked: (report: Report) => void, failed: (message: string) => void}} listener
   */
  constructor(address, readDraft, listener) {
    this.address = address;
    this.readDraft = readDraft;
    this.listener = listener;
    this.newest = new AbortController();
    this.lastDraft = "";
    /** Ask again soon: something was typed. */
    this.soon = afterPause(() => void this.ask(), PAUSE_MILLISECONDS);
  }

  /** Ask now, unless nothing has changed since the last answer. */
  async ask() {
    const draft = this.readDraft();
    const text = JSON.stringify(draft);
    if (text === this.lastDraft) return;
    this.newest.abort();
    const own = new AbortController();
    this.newest = own;
    this.lastDraft = text;
    this.listener.checking();
    try {
      const report = await post(this.address, { draft }, { signal: own.signal });
      if (!own.signal.aborted) this.listener.checked(report);
    } catch (error) {
      if (own.signal.aborted) return;
      this.lastDraft = "";
      if (!(error instanceof RequestFailed)) throw error;
      this.listener.failed(error.message);
    }
  }
}
