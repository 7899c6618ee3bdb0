/** What was typed into "Try it", kept in this browser tab until it is closed: saving the endpoint loads the page anew. */

const PREFIX = "endpoint-trial:";

export class PageMemory {
  /** @param {string | null} id of the saved endpoint */
  constructor(id) {
    this.key = `${PREFIX}${id ?? "new"}`;
    /** @type {{arguments: Record<string, string>, sql: string, lql: string, tab: string}} */
    this.kept = { arguments: {}, sql: "", lql: "", tab: "", ...(isJustAdded(id) ? read(`${PREFIX}new`) : {}), ...read(this.key) };
    if (id !== null) forget(`${PREFIX}new`);
  }

  /** @param {Partial<PageMemory["kept"]>} changes */
  keep(changes) {
    Object.assign(this.kept, changes);
    try {
      window.sessionStorage.setItem(this.key, JSON.stringify(this.kept));
    } catch (error) {
      if (!(error instanceof DOMException)) throw error; // full or switched off: nothing is kept then
    }
  }
}

/** Whether the endpoint was a new one on the page before. */
function isJustAdded(id) {
  return id !== null && document.referrer.endsWith("/add/");
}

function forget(key) {
  try {
    window.sessionStorage.removeItem(key);
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
  }
}

function read(key) {
  try {
    return JSON.parse(window.sessionStorage.getItem(key) ?? "{}");
  } catch (error) {
    if (!(error instanceof DOMException || error instanceof SyntaxError)) throw error;
    return {};
  }
}
