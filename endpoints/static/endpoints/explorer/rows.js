/** The rows that were found, newest first: a line each, which unfolds into the row's JSON. */

import { copyButton } from "../shared/copying.js";
import { button, byId, h } from "../shared/dom.js";
import { writeExactly } from "../shared/exact_json.js";
import { columnsOf, Grid } from "./grid.js";
import { isObject, scalar } from "./knowledge.js";
import { writePath } from "./paths.js";
import { writeMoment } from "./zone.js";

const MAX_LINES = 500; // a page of rows with thousands of values each would be slow
const MOST_ROWS = 5000; // of live rows; a page with more is slow
const REDACTED = "REDACTED";
const BASE = new Set(["timestamp", "project", "id", "event_message", "metadata"]);
const SEVERITY_COLUMN = /^_severity_\d$/; // the service's own, of a query that chooses columns

export class RowList {
  constructor(actions) {
    this.actions = actions;
    this.list = byId("lx-list");
    this.clear();
  }

  clear() {
    this.keys = new Set();
    this.rows = [];
    this.lines = new Map(); // the elements by row
    this.grid = null;
    this.list.replaceChildren();
    this.list.hidden = false;
    byId("lx-grid").replaceChildren();
  }

  /** Add those rows that are not there yet; what is returned are these. */
  add(rows) {
    const added = this.unknown(rows);
    this.rows.push(...added);
    this.draw(added);
    return added;
  }

  /** Show the same rows again, by another clock. */
  redraw() {
    const { rows, keys } = this;
    this.clear();
    Object.assign(this, { rows, keys });
    this.draw(rows);
  }

  /** Put those rows that are not there yet where their time is; the oldest rows make room for them. */
  insert(rows) {
    const added = this.unknown(rows);
    for (const row of added) {
      const found = this.rows.findIndex((other) => isOlder(other, row));
      this.rows.splice(found === -1 ? this.rows.length : found, 0, row);
    }
    this.draw(added);
    while (this.rows.length > MOST_ROWS) {
      const oldest = this.rows.pop();
      this.keys.delete(keyOf(oldest));
      this.lines.get(oldest).remove();
      this.lines.delete(oldest);
    }
    return added;
  }

  /** Make the lines of new rows and put each behind that of the row before it; a table is sorted as it is. */
  draw(added) {
    if (!added.length) return;
    this.chooseGrid();
    for (const row of added) this.lines.set(row, this.item(row));
    if (this.grid) this.arrange();
    else {
      let next = null;
      const isNew = new Set(added);
      for (const row of [...this.rows].reverse()) {
        const line = this.lines.get(row);
        if (isNew.has(row)) this.list.insertBefore(line, next);
        next = line;
      }
    }
  }

  /** Rows of chosen columns are a table, whose columns are those of the first one. */
  chooseGrid() {
    const names = this.grid ? null : columnsOf(ownPart(this.rows[0]));
    if (!names) return;
    const cells = { time: (row) => this.time(row), unfolded: (row) => this.unfolded(row) };
    const sorted = (sort) => {
      this.arrange();
      this.actions.sorted(sort);
    };
    this.grid = new Grid(names, this.actions.sort(), { sorted, cells });
    this.list.hidden = true;
    byId("lx-grid").replaceChildren(this.grid.place);
  }

  arrange() {
    const hadFocus = document.activeElement;
    this.grid.arrange(this.rows.map((row) => ({ row, element: this.lines.get(row) })));
    if (hadFocus instanceof HTMLElement && hadFocus !== document.activeElement) hadFocus.focus();
  }

  unknown(rows) {
    return rows.filter((row) => !this.keys.has(keyOf(row)) && this.keys.add(keyOf(row)));
  }

  /** Where the rows end, as the service asks for it. */
  get mark() {
    const oldest = this.rows.at(-1);
    if (oldest === undefined) return null;
    const id = oldest.id.includes(REDACTED) ? "" : oldest.id; // the service cannot go on after an id that it has hidden
    const isSame = (row) => row.timestamp === oldest.timestamp && (id === "" || row.id === id);
    return { timestamp: oldest.timestamp, id, rows: this.rows.filter(isSame).length };
  }

  item(row) {
    if (this.grid) return this.grid.line(row, severityOf(row, this.actions.severities));
    const level = levelOf(row);
    const details = h("details", { class: "lx-row" }, this.summary(row, level));
    details.addEventListener("toggle", () => {
      if (details.childElementCount === 1) details.append(this.unfolded(row));
    });
    return h("li", { class: `lx-item lx-severity-${severityOf(row, this.actions.severities)}` }, details);
  }

  summary(row, level) {
    const time = this.time(row);
    const project = row.project ? h("span", { class: "lx-project" }, row.project) : null;
    const badge = level ? h("span", { class: "lx-badge" }, level) : null;
    return h("summary", {}, time, project, badge, h("span", { class: "lx-message" }, message(row)));
  }

  time(row) {
    const moment = precise(new Date(row.timestamp));
    return h("time", { class: "lx-when", datetime: row.timestamp, title: `${row.timestamp} (UTC)` }, moment);
  }

  unfolded(row) {
    const own = ownPart(row);
    const copy = copyButton("lx-button lx-small", "Copy JSON", () => writeExactly(own, 2));
    const lookAround = () => this.actions.around(new Date(row.timestamp));
    const around = button("lx-button lx-small", lookAround, "Show surrounding rows");
    const actions = h("div", { class: "lx-actions" }, copy, around);
    return h("div", { class: "lx-unfolded" }, actions, rowJson(own, this.actions));
  }
}

/** Whether a row stands behind another one: of one moment, the row that was loaded last comes first. */
function isOlder(row, other) {
  return row.timestamp === other.timestamp ? row.id < other.id : row.timestamp < other.timestamp;
}

function keyOf(row) {
  return JSON.stringify([row.timestamp, row.id, row.project ?? null]);
}

/** The message, or what was selected in its place. */
function message(row) {
  if (typeof row.event_message === "string") return row.event_message || "(no message)";
  const selected = Object.entries(row).filter(([name]) => !BASE.has(name) && !SEVERITY_COLUMN.test(name));
  return selected.map(([name, value]) => `${name}=${typeof value === "string" ? value : writeExactly(value)}`).join("  ");
}

/** The values by which the service tells severities: in the row's metadata, or beside columns that were chosen. */
function signsOf(row) {
  if (!("metadata" in row)) return [0, 1, 2, 3].map((number) => one(row[`_severity_${number}`]));
  const metadata = one(row.metadata);
  const status = one(metadata?.response)?.status_code;
  return [metadata?.level, one(metadata?.parsed)?.error_severity, status, metadata?.status].map(one);
}

function levelOf(row) {
  const [level, severity] = signsOf(row);
  const text = level ?? severity;
  return typeof text === "string" && text.length <= 20 ? text.toLowerCase() : "";
}

/** How severe the row is: by its level, else by the status that an HTTP response had. */
export function severityOf(row, severities) {
  const level = levelOf(row);
  if (level) return Object.keys(severities).find((name) => severities[name].includes(level)) ?? "other";
  const [, , code, other] = signsOf(row);
  const status = String(code ?? other ?? "");
  if (!/^[1-5]\d\d$/.test(status)) return "other";
  return { 5: "error", 4: "warning" }[status[0]] ?? "info";
}

/** The row without the columns that the service has added to it. */
export function ownPart(row) {
  return Object.fromEntries(Object.entries(row).filter(([name]) => !SEVERITY_COLUMN.test(name)));
}

/** What an array of one holds. */
function one(value) {
  return Array.isArray(value) ? value[0] : value;
}

function precise(moment) {
  const text = writeMoment(moment);
  return text.includes(".") ? text : `${text}.000`;
}

/** A row's JSON, a value a line, each with buttons that filter for it or filter it out. */
function rowJson(row, actions) {
  let left = MAX_LINES;
  // A chosen column is called after its path, metadata.request.path, or by its alias.
  const chosen = actions.chosen();
  const path = (key) => chosen.get(key) ?? [key];

  const object = (value, keys) => {
    const entries = Object.entries(value);
    if (!entries.length) return h("span", { class: "lx-empty-value" }, "{}");
    return h("ul", { class: "lx-object" }, entries.map(([key, part]) => line(key, part, keys.length ? [...keys, key] : path(key))));
  };
  const line = (key, value, keys) => item(h("span", { class: "lx-key" }, `${key}:`), value, keys);
  const item = (name, several, keys) => {
    left -= 1;
    if (left < 0) return null;
    // An array of one reads as what is in it, as it does in LQL.
    let value = several;
    while (Array.isArray(value) && value.length === 1) [value] = value;
    const isNested = isObject(value) || Array.isArray(value);
    return h("li", { class: isNested ? "lx-nested" : "lx-leaf" }, name, " ", part(value, keys));
  };
  const part = (value, keys) => {
    if (isObject(value)) return object(value, keys);
    if (!Array.isArray(value)) return leaf(value, keys, actions);
    if (!value.length) return h("span", { class: "lx-empty-value" }, "[]");
    return h("ul", { class: "lx-array" }, value.map((element) => item(null, element, keys)));
  };

  const whole = object(row, []);
  const cut = left < 0 ? h("p", { class: "lx-hint" }, `Only the first ${MAX_LINES} values; Copy JSON has all.`) : null;
  return h("div", { class: "lx-json" }, whole, cut);
}

function leaf(value, keys, { addFilter, topValues }) {
  const { kind, text } = scalar(value);
  const shown = h("span", { class: `lx-scalar lx-${kind}` }, kind === "null" ? "null" : text === "" ? '""' : text);
  if (keys.join() === "timestamp") return shown; // a moment is looked around, not filtered for
  const path = writePath(keys);
  const filter = (sign, label, negated) => {
    const named = { title: label, "aria-label": `${label}: ${path} ${text}` };
    const onclick = () => addFilter(keys, { kind, text }, negated);
    return h("button", { type: "button", class: "lx-mini", ...named, onclick }, sign);
  };
  const named = { title: "Top values", "aria-label": `Top values of ${path}` };
  const top = h("button", { type: "button", class: "lx-mini", ...named, onclick: () => topValues(path) }, "≡");
  return [shown, h("span", { class: "lx-minis" }, filter("+", "Filter for", false), filter("−", "Filter out", true), top)];
}
