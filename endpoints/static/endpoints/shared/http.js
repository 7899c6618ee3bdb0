/**
 * The page's own requests to the service: JSON both ways, the CSRF token sent along, failures as one kind of error; and
 * the queries that it runs for an operator: their ids, how long they take, and their end on request.
 */

const RETRY_MILLISECONDS = 200;
const TICK_MILLISECONDS = 100;

/**
 * @typedef {{code: string, message: string, details: Record<string, any>[], request_id?: string, consumer_status?: number | null,
 *   operator?: {sqlstate: string, message: string, hint: string, field: string, line: number | null,
 *   column: number | null} | null}} ServiceError
 */

/** A request that was not served; `status` is 0 where no answer came at all. */
class RequestFailed extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.error = error;
  }
}

/** Send JSON, get the answer's JSON; throws RequestFailed, or AbortError where `signal` ends it. */
export function post(address, body, { signal, keepalive = false } = {}) {
  const headers = { "Content-Type": "application/json", "X-CSRFToken": csrfToken() };
  return request(address, { method: "POST", headers, body: JSON.stringify(body), signal, keepalive });
}

/** Get the answer's JSON; throws RequestFailed. */
export function get(address) {
  return request(address, { method: "GET" });
}

/** The token of the newest login in this browser: the form's own is that of when the page was loaded. */
export function csrfToken() {
  const cookie = /(?:^|; )csrftoken=([^;]+)/.exec(document.cookie);
  const field = document.querySelector("[name=csrfmiddlewaretoken]");
  return cookie ? decodeURIComponent(cookie[1]) : field.value;
}

/** What a request failed with; any other error goes on its way. */
export function failureOf(error) {
  if (!(error instanceof RequestFailed)) throw error;
  return error;
}

export function hasCode(error, code) {
  return error instanceof RequestFailed && error.error.code === code;
}

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

async function request(address, options) {
  let response;
  try {
    response = await fetch(address, { ...options, credentials: "same-origin", redirect: "error" });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new RequestFailed(0, failure("unreachable", "The service cannot be reached. What you typed is still here."));
  }
  const answer = await json(response);
  if (response.ok && answer !== undefined) return answer;
  throw new RequestFailed(response.status, answer?.error ?? unexplained(response.status));
}

async function json(response) {
  try {
    return await response.json();
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    return undefined; // a page of a proxy or of Django itself: its status says more than its text
  }
}

function unexplained(status) {
  const reason =
    status === 403 ? "Your session has changed: copy what you typed, then reload the page." : `It answered ${status}.`;
  return failure("unexplained", `The service did not do it. ${reason}`);
}

function failure(code, message) {
  return { code, message, details: [], consumer_status: null, operator: null };
}
