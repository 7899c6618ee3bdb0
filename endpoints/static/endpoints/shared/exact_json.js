/** JSON read and laid out without losing a digit: a bigint or numeric may have more than a JavaScript number holds. */

/** A number with the text that PostgreSQL wrote it as. */
export class ExactNumber {
  constructor(value, text) {
    this.value = value;
    this.text = text;
  }

  toString() {
    return this.text;
  }

  /** Kept in nested values too, when they are shown as JSON. */
  toJSON() {
    return "rawJSON" in JSON ? JSON.rawJSON(this.text) : this.value;
  }
}

/** As JSON.parse, each number as ExactNumber. */
export function parseExactly(text) {
  // The third argument is the value's source text; browsers without it (before 2025) give the rounded number.
  return JSON.parse(text, keepText);
}

function keepText(_key, value, context) {
  return typeof value === "number" ? new ExactNumber(value, context?.source ?? String(value)) : value;
}

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** Lay JSON out with one value a line; empty objects and arrays stay on theirs. */
export function layOut(text) {
  const lines = [];
  let depth = 0;
  let before = "";
  for (const [token] of text.matchAll(TOKEN)) {
    const closes = token === "}" || token === "]";
    const opened = before === "{" || before === "[";
    if (closes) depth -= 1;
    if ((closes && !opened) || (!closes && opened) || before === ",") lines.push(`\n${"  ".repeat(depth)}`);
    lines.push(token === ":" ? ": " : token);
    if (token === "{" || token === "[") depth += 1;
    before = token;
  }
  return lines.join("");
}
