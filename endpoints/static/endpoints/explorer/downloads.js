/** Rows of a search as a file; a long one can be cancelled like a search. */

import { button, byId, counted, show } from "../shared/dom.js";
import { csrfToken, endRun, newRunId } from "../shared/http.js";

const KEPT_MILLISECONDS = 60_000; // the browser reads the file from memory meanwhile
const NAMES = { csv: "CSV", ndjson: "NDJSON", parquet: "Parquet" };

export class Downloads {
  /** `exploration` returns what to search and the number of rows shown, or null; `say` and `failed` tell the outcome. */
  constructor({ addresses, formats, exploration, say, failed }) {
    Object.assign(this, { addresses, exploration, say, failed });
    this.run = null;
    show(byId("lx-download-formats"), formats.map((format) => button("lx-button lx-small", () => void this.get(format), NAMES[format])));
    byId("lx-download-cancel").addEventListener("click", () => this.cancel());
  }

  async get(format) {
    const wanted = this.exploration();
    if (wanted === null || this.run !== null) return;
    const chosen = Number(byId("lx-download-rows").value);
    const rows = Math.max(1, chosen || wanted.shown);
    const run = (this.run = newRunId());
    byId("lx-download-cancel").hidden = false;
    this.say(`Preparing ${NAMES[format]} …`);
    try {
      await this.fetch({ ...wanted.search, format, rows, run_id: run });
    } catch {
      this.failed(unreachable());
    } finally {
      this.run = null;
      byId("lx-download-cancel").hidden = true;
    }
  }

  async fetch(body) {
    const headers = { "Content-Type": "application/json", "X-CSRFToken": csrfToken() };
    const options = { method: "POST", headers, body: JSON.stringify(body), credentials: "same-origin", redirect: "error" };
    const response = await fetch(this.addresses.download, options);
    if (!response.ok) {
      this.failed((await response.json().catch(() => null)) ?? unreachable());
      return;
    }
    const name = /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition") ?? "")?.[1] ?? "rows";
    save(name, await response.blob());
    const rows = counted(Number(response.headers.get("X-Result-Rows")), "row");
    const isPart = response.headers.get("X-Result-Truncated") === "true";
    this.say(`Saved ${rows} as ${name}${isPart ? "; more rows match" : ""}.`);
  }

  cancel() {
    const run = this.run;
    // It ends by its own time limit where it cannot be cancelled.
    if (run !== null) void endRun(this.addresses.cancel, run, () => this.run === run).catch(() => {});
  }
}

function save(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), KEPT_MILLISECONDS);
}

function unreachable() {
  return { error: { code: "unreachable", message: "The file could not be loaded. Try it again.", details: [], operator: null } };
}
