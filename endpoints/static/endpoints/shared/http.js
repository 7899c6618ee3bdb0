/** The page's own requests to the service: JSON both ways, the CSRF token sent along, failures as one kind of error. */

/**
 * @typedef {{code: string, message: string, details: Record<string, any>[], consumer_status?: number | null,
 *   operator?: {sqlstate: string, message: string, hint: string, field: string, line: number | null,
 *   column: number | null} | null}} ServiceError
 */

/** A request that was not served; `status` is 0 where no answer came at all. */
export class RequestFailed extends Error {
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
