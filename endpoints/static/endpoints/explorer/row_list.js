/** The rows that were found, newest first: a line each, which unfolds into the row's JSON. */

import { byId, h } from "../workbench/dom.js";
import { writeMoment } from "./range.js";
import { rowJson } from "./row_json.js";

/** @typedef {Record<string, any>} Row */

const LEVELS = { info: "info", log: "info", notice: "info", warning: "warning", warn: "warning" };
const BAD_LEVELS = new Set(["error", "critical", "alert", "emergency", "fatal", "panic"]);
const BASE = new Set(["timestamp", "project", "id", "event_message", "metadata"]);

export class RowList {
  /** @param {{addFilter: import("./row_json.js").AddFilter, around: (moment: Date) => void}} actions */
  constructor(actions) {
    this.actions = actions;
    this.place = byId("lx-list");
    this.clear();
  }

  clear() {
    /** @type {Set<string>} */
    this.keys = new Set();
    /** @type {Row[]} */
    this.rows = [];
    this.place.replaceChildren();
  }

  /**
   * @param {Row[]} rows of which those that are there already are left out
   * @returns {Row[]} the new ones
   */
  add(rows) {
    const added = rows.filter((row) => {
      const key = JSON.stringify([row.timestamp, row.id, row.project ?? null]);
      return !this.keys.has(key) && this.keys.add(key);
    });
    this.rows.push(...added);
    this.place.append(...added.map((row) => this.item(row)));
    return added;
  }

  /** @returns {{timestamp: string, rows: number} | null} where the rows end, as the service asks for it */
  get mark() {
    const oldest = this.rows.at(-1)?.timestamp;
    if (oldest === undefined) return null;
    return { timestamp: oldest, rows: this.rows.filter(({ timestamp }) => timestamp === oldest).length };
  }

  item(row) {
    const metadata = one(row.metadata);
    const level = levelOf(metadata);
    const details = h("details", { class: "lx-row" }, this.summary(row, level));
    details.addEventListener("toggle", () => {
      if (details.childElementCount === 1) details.append(this.unfolded(row));
    });
    return h("li", { class: `lx-item lx-level-${kindOf(metadata, level)}` }, details);
  }

  summary(row, level) {
    const moment = new Date(row.timestamp);
    const time = h("time", { class: "lx-when", datetime: row.timestamp, title: `${row.timestamp} (UTC)` }, precise(moment));
    const project = row.project ? h("span", { class: "lx-project" }, row.project) : null;
    const badge = level ? h("span", { class: "lx-badge" }, level) : null;
    return h("summary", {}, time, project, badge, h("span", { class: "lx-message" }, message(row)));
  }

  unfolded(row) {
    const copy = h("button", { type: "button", class: "lx-button lx-small" }, "Copy JSON");
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(JSON.stringify(row, null, 2));
      copy.textContent = "Copied";
    });
    const around = h(
      "button",
      { type: "button", class: "lx-button lx-small", onclick: () => this.actions.around(new Date(row.timestamp)) },
      "What happened around it",
    );
    const actions = h("div", { class: "lx-actions" }, navigator.clipboard ? copy : null, around);
    return h("div", { class: "lx-unfolded" }, actions, rowJson(row, this.actions.addFilter));
  }
}

/** The message, or what was selected in its place. */
function message(row) {
  if (typeof row.event_message === "string") return row.event_message || "(no message)";
  const selected = Object.entries(row).filter(([name]) => !BASE.has(name));
  return selected.map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`).join("  ");
}

function levelOf(metadata) {
  const level = metadata?.level ?? one(metadata?.parsed)?.error_severity;
  return typeof level === "string" && level.length <= 20 ? level.toLowerCase() : "";
}

/** How bad the row is: by its level, else by the status that an HTTP response had. */
function kindOf(metadata, level) {
  if (level) return BAD_LEVELS.has(level) ? "bad" : (LEVELS[level] ?? "none");
  const response = one(metadata?.response);
  const status = Number(response?.status_code ?? metadata?.status);
  return status >= 500 ? "bad" : status >= 400 ? "warning" : "none";
}

/** What an array of one holds. */
function one(value) {
  return Array.isArray(value) ? value[0] : value;
}

function precise(moment) {
  const text = writeMoment(moment);
  return text.includes(".") ? text : `${text}.000`;
}
