/** What the rows on the page have shown: which paths there are and which values stand there, for completion. */

import { ExactNumber } from "../workbench/exact_json.js";

const MAX_PATHS = 1000;
const MAX_VALUES = 200; // of one path
const MAX_CHARACTERS = 100; // of a value that is worth offering

/** @typedef {{kind: "text" | "number" | "boolean" | "null", text: string}} Value as the service reads it */
/** @typedef {{type: string, rows: number, values: Map<string, {value: Value, rows: number}>}} SeenField */

export class FieldsSeen {
  constructor() {
    this.forget();
  }

  forget() {
    /** @type {Map<string, SeenField>} by path: metadata.request.path */
    this.fields = new Map();
  }

  /** @param {Record<string, any>[]} rows */
  add(rows) {
    for (const row of rows) this.walk(row, "");
  }

  walk(value, path) {
    if (Array.isArray(value)) {
      for (const element of value) this.walk(element, path);
    } else if (isObject(value)) {
      for (const [key, part] of Object.entries(value)) if (/^\w+$/.test(key)) this.walk(part, path ? `${path}.${key}` : key);
    } else if (path) this.note(path, scalar(value));
  }

  note(path, value) {
    let field = this.fields.get(path);
    if (!field) {
      if (this.fields.size >= MAX_PATHS) return;
      field = { type: value.kind, rows: 0, values: new Map() };
      this.fields.set(path, field);
    }
    field.rows += 1;
    if (value.text.length > MAX_CHARACTERS) return;
    const key = `${value.kind} ${value.text}`;
    const seen = field.values.get(key);
    if (seen) seen.rows += 1;
    else if (field.values.size < MAX_VALUES) field.values.set(key, { value, rows: 1 });
  }
}

/**
 * @param {any} value
 * @returns {boolean}
 */
export function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof ExactNumber);
}

/**
 * @param {any} value neither an object nor an array
 * @returns {Value}
 */
export function scalar(value) {
  if (value instanceof ExactNumber) return { kind: "number", text: value.text };
  if (value === null) return { kind: "null", text: "NULL" };
  return typeof value === "boolean" ? { kind: "boolean", text: String(value) } : { kind: "text", text: value };
}
