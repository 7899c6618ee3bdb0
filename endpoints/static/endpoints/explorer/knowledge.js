/** What is known of the source that is looked into: its fields, its projects, and what its rows have shown. */

import { get, RequestFailed } from "../workbench/http.js";
import { FieldsSeen } from "./fields_seen.js";

const NOTHING = { columns: [], paths: [], projects: [], newest: null };

export class Knowledge {
  /**
   * @param {string} address of the fields
   * @param {() => void} learnt called with each answer
   */
  constructor(address, learnt) {
    this.address = address;
    this.learnt = learnt;
    this.source = "";
    this.known = NOTHING;
    this.seen = new FieldsSeen();
  }

  /** @param {string} source what is known of another is forgotten */
  async learn(source) {
    if (source === this.source) return;
    this.source = source;
    this.known = NOTHING;
    this.seen.forget();
    try {
      const known = await get(`${this.address}?${new URLSearchParams({ source })}`);
      if (this.source !== source) return;
      this.known = known;
      this.learnt();
    } catch (error) {
      if (!(error instanceof RequestFailed)) throw error; // completion is less, the search itself says what is wrong
    }
  }
}
