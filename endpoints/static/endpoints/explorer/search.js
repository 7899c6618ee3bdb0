/** One search at a time: its rows and its histogram, more rows of it, and its end when it is cancelled or outdated. */

import { parseExactly } from "../shared/exact_json.js";
import { endRun, failureOf, hasCode, newRunId, pause, post } from "../shared/http.js";

const BUSY_ATTEMPTS = 6;
const BUSY_MILLISECONDS = 500;
const LONGEST_END_MILLISECONDS = 3000; // what cannot be cancelled is not waited for

/**
 * @typedef {object} View what is told as a search goes on
 * @property {(rows: Record<string, any>[], facts: {more: boolean, seconds: number}, isFirst: boolean) => void} rows
 * @property {(answer: Record<string, any>) => void} histogram
 * @property {(failure: RequestFailed, part: string) => void} failed the part is "rows", "more", "histogram"
 * @property {(failure: RequestFailed) => void} notCancelled
 * @property {() => void} over nothing of it runs any more
 */

export class Search {
  constructor(addresses, view) {
    this.addresses = addresses;
    this.view = view;
    this.number = 0; // answers to an earlier search count no more
    this.runs = new Set();
    this.asked = [];
  }

  get isRunning() {
    return this.runs.size > 0;
  }

  /** Start it once what ran before has ended: the service runs few queries of operators at once. */
  async start(exploration) {
    this.endAll();
    const number = (this.number += 1);
    const ended = Promise.all(this.asked);
    this.runs = new Set();
    this.asked = [];
    this.exploration = exploration;
    await Promise.race([ended, pause(LONGEST_END_MILLISECONDS)]);
    if (number !== this.number) return; // another has been started meanwhile, or this one cancelled
    const rows = this.ask("rows", { mark: null }, (answer) => this.view.rows(rowsOf(answer), answer, true));
    this.asked = [rows, this.ask("histogram", {}, (answer) => this.view.histogram(answer))];
  }

  /** Ask for the rows behind the mark, where those shown so far end. */
  more(mark) {
    this.asked.push(this.ask("rows", { mark }, (answer) => this.view.rows(rowsOf(answer), answer, false), "more"));
  }

  /** Ask for the histogram of another range. */
  recount(range) {
    this.asked.push(this.ask("histogram", range, (answer) => this.view.histogram(answer, range)));
  }

  /** Ask for something beside the rows of the search, such as notes about it. */
  beside(word, body, done) {
    this.asked.push(this.ask(word, body, done));
  }

  /** End what runs; PostgreSQL stops it. Its own requests then fail as cancelled. */
  cancel() {
    this.endAll();
    if (this.isRunning) return;
    this.number += 1; // what waits to be started is not
    this.view.over();
  }

  endAll() {
    for (const run of this.runs) void this.end(run, this.runs);
  }

  async end(run, runs) {
    try {
      await endRun(this.addresses.cancel, run, () => runs.has(run));
    } catch (error) {
      this.view.notCancelled(failureOf(error)); // its own timeout ends it
    }
  }

  async ask(word, body, done, part = word) {
    const { number, runs } = this;
    const run = newRunId();
    runs.add(run);
    try {
      const send = () => post(this.addresses[word], { ...this.exploration, ...body, run_id: run });
      const answer = await whileBusy(send, () => number === this.number);
      if (number === this.number) done(answer);
    } catch (error) {
      const failure = failureOf(error);
      if (number === this.number) this.view.failed(failure, part);
    } finally {
      runs.delete(run);
      if (number === this.number && !this.isRunning) this.view.over();
    }
  }
}

/** The service runs few queries of operators at once: one too many is asked for again, as long as it is wanted. */
async function whileBusy(send, isWanted) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await send();
    } catch (error) {
      if (!hasCode(error, "overloaded") || attempt === BUSY_ATTEMPTS || !isWanted()) throw error;
      await pause(BUSY_MILLISECONDS);
    }
  }
}

function rowsOf(answer) {
  return parseExactly(answer.result_json).result;
}
