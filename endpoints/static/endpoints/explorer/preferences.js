/** What a person prefers in this browser, such as local time; a browser that keeps nothing uses what is usual. */

const PREFIX = "log-explorer-";

/** The value that was kept under this name, or null. */
export function recall(name) {
  try {
    return window.localStorage.getItem(PREFIX + name);
  } catch {
    return null; // cookies and storage may be forbidden
  }
}

export function remember(name, value) {
  try {
    window.localStorage.setItem(PREFIX + name, value);
  } catch {
    // It holds for this page alone.
  }
}
