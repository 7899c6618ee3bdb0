/** Queries that the service runs for an operator: their ids, how long they take, and their end on request. */

import { post, RequestFailed } from "./http.js";

const RETRY_MILLISECONDS = 200;
const TICK_MILLISECONDS = 100;

/** A new id; crypto.randomUUID exists on https and localhost alone. */
export function newRunId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** End a run, and ask again until it is over: it is not known while its request is on the way or between statements. */
export async function endRun(address, runId, isRunning, options = {}) {
  while (isRunning()) {
    try {
      await post(address, { run_id: runId }, options);
    } catch (error) {
      if (!hasCode(error, "run_not_found")) throw error;
    }
    await pause(RETRY_MILLISECONDS);
  }
}

export function hasCode(error, code) {
  return error instanceof RequestFailed && error.error.code === code;
}

export function pause(milliseconds) {
  return new Promise((resume) => window.setTimeout(resume, milliseconds));
}

/** Tell the seconds that have passed, again and again; what is returned ends that and gives their number. */
export function stopwatch(tell) {
  const started = performance.now();
  const seconds = () => (performance.now() - started) / 1000;
  tell(0);
  const timer = window.setInterval(() => tell(seconds()), TICK_MILLISECONDS);
  return () => {
    window.clearInterval(timer);
    return seconds();
  };
}
