/** What is known of the source that is looked into: its fields, its projects, and what its rows have shown. */

import { ExactNumber } from "../shared/exact_json.js";
import { failureOf, get } from "../shared/http.js";
import { writePath } from "./paths.js";

const NOTHING = { columns: [], paths: [], projects: [], newest: null };
const MAX_PATHS = 1000;
const MAX_VALUES = 200; // of one path
const MAX_CHARACTERS = 100; // of a value that is worth offering

/** @typedef {{kind: "text" | "number" | "boolean" | "null", text: string}} Value as the service reads it */
/** @typedef {{type: string, rows: number, values: Map<string, {value: Value, rows: number}>}} SeenField */

export class Knowledge {
  constructor(address, learnt) {
    this.address = address;
    this.learnt = learnt;
    this.source = "";
    this.known = NOTHING;
    this.seen = new FieldsSeen();
  }

  /** Learn of a source; what is known of another is forgotten. */
  async learn(source) {
    if (source === this.source) return;
    this.source = source;
    this.known = NOTHING;
    this.seen.forget();
    try {
      const known = await get(`${this.address}?${new URLSearchParams({ source })}`);
      if (this.source !== source) return;
      this.known = known;
      this.learnt();
    } catch (error) {
      failureOf(error); // completion is less, the search itself says what is wrong
    }
  }
}

/** The paths that the rows on the page have shown and the values that stand there, for completion. */
class FieldsSeen {
  constructor() {
    this.forget();
  }

  forget() {
    this.fields = new Map(); // by path: metadata.request.path
  }

  add(rows) {
    for (const row of rows) this.walk(row, "");
  }

  walk(value, path) {
    if (Array.isArray(value)) {
      for (const element of value) this.walk(element, path);
    } else if (isObject(value)) {
      for (const [key, part] of Object.entries(value)) {
        if (path && key) this.walk(part, `${path}.${writePath([key])}`);
        else if (/^\w+$/.test(key)) this.walk(part, key);
      }
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

export function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof ExactNumber);
}

/** A value that is neither an object nor an array, as the service reads it. */
export function scalar(value) {
  if (value instanceof ExactNumber) return { kind: "number", text: value.text };
  if (value === null) return { kind: "null", text: "NULL" };
  return typeof value === "boolean" ? { kind: "boolean", text: String(value) } : { kind: "text", text: value };
}
