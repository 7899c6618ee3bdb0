/** What fits at the cursor of an LQL query: fields, values, clauses. Pure. */

import { quoted, writePath } from "./paths.js";

/**
 * `goesOn`: more can follow at once. `rows`, of a field: how many of those that were looked at have it.
 * @typedef {{text: string, note: string, insert: string, goesOn: boolean, rows?: number}} Offer
 */
/** @typedef {{from: number, offers: Offer[]}} Completion `from`: what the offers replace up to the cursor */
/** @typedef {{columns: {name: string, type: string}[], paths: {path: string, type: string, rows: number}[]}} Known */

const MOST = 12;
const LEVEL = "metadata.level";
const TIMES = ["today", "yesterday", "last@5minutes", "last@1hour", "this@day"];
const PERIODS = ["count(*)", "countd(", "avg(", "sum(", "max(", "p50(", "p95(", "p99("];
const OPERATORS = /^(?:>=|<=|=|>|<|@>~|@>|~)?/;

/** What fits behind an LQL query up to the cursor. */
export function complete(lql, facts) {
  const from = startOfClause(lql);
  const clause = lql.slice(from);
  const dash = clause.startsWith("-") ? 1 : 0;
  const colon = (/^(?:[^":]|"(?:[^"\\]|\\.)*(?:"|$))*/.exec(clause) ?? [""])[0].length; // outside quotes
  if (colon === clause.length) {
    const offers = best([...fields(facts), ...clauses()], clause.slice(dash), lql.slice(0, from));
    return { from: from + dash, offers };
  }
  const name = clause.slice(dash, colon);
  const rest = clause.slice(colon + 1);
  const at = from + colon + 1;
  if (name === "s" || name === "select") return { from: at, offers: best(fields(facts).map(alone), rest) };
  if (name === "c" || name === "chart") return chart(rest, at, facts);
  const operator = (OPERATORS.exec(rest) ?? [""])[0];
  return { from: at + operator.length, offers: best(values(name, facts), rest.slice(operator.length)) };
}

/** Where the clause that holds the end of the text begins: behind the last white space outside quotes. */
function startOfClause(lql) {
  let start = 0;
  for (const found of lql.matchAll(/"(?:[^"\\]|\\.)*(?:"|$)|\s/g)) {
    if (!found[0].startsWith('"')) start = found.index + 1;
  }
  return start;
}

function fields({ known, seen }) {
  const found = new Map(known.columns.filter(({ name }) => name !== "metadata").map(({ name, type }) => [name, { type, rows: 0 }]));
  for (const { path, type, rows } of known.paths) found.set(`metadata.${writePath(path.split("."))}`, { type, rows });
  for (const [path, { type, rows }] of seen.fields) {
    const { type: knownType = type, rows: others = 0 } = found.get(path) ?? {};
    if (path.startsWith("metadata.")) found.set(path, { type: knownType, rows: others + rows });
  }
  return [...found]
    .filter(([, { type }]) => type !== "object")
    .map(([path, { type, rows }]) => {
      const text = path.replace(/^metadata\./, "m.").replace(/^timestamp$/, "t");
      return { text, note: path === "timestamp" ? "time" : short(type), insert: `${text}:`, goesOn: true, rows };
    });
}

function clauses() {
  return [
    { text: "s:", note: "show a field as a column", insert: "s:", goesOn: true },
    { text: "c:", note: "what the bars show", insert: "c:", goesOn: true },
  ];
}

function chart(rest, at, facts) {
  const call = /^(\w+)\(/.exec(rest);
  if (!call) {
    const offers = PERIODS.map((text) => ({ text, note: "", insert: text, goesOn: text.endsWith("(") }));
    return { from: at, offers: best(offers, rest) };
  }
  const inside = fields(facts).map((offer) => ({ ...offer, insert: `${offer.text})`, goesOn: false }));
  return { from: at + call[0].length, offers: best(inside, rest.slice(call[0].length)) };
}

function values(name, { seen, levels, sources }) {
  if (name === "t" || name === "timestamp") return TIMES.map((text) => whole(text, "time"));
  if (name === "f" || name === "from") return sources.map((text) => whole(text, "log source"));
  const path = name.replace(/^m\./, "metadata.");
  const found = seen.fields.get(path) ?? seen.fields.get(`metadata.${path}`);
  const common = [...(found?.values.values() ?? [])].sort((one, other) => other.rows - one.rows);
  const offers = common.map(({ value, rows }) => whole(writeValue(value), rows === 1 ? "in 1 row here" : `in ${rows} rows here`));
  if (path === LEVEL || path === "level") {
    const there = new Set(offers.map(({ text }) => text));
    offers.push(...levels.filter((level) => !there.has(level)).map((level) => whole(level, "level")));
    offers.push(whole("warning..emergency", "levels"));
  }
  return offers;
}

/** A value as LQL writes it. */
export function writeValue({ kind, text }) {
  if (kind !== "text") return text;
  const isPlain = /^[A-Za-z][A-Za-z0-9_-]*$/.test(text) && !["NULL", "true", "false"].includes(text);
  return isPlain ? text : quoted(text);
}

/** What fits best comes first; of fields that fit alike one that is used before, then one that more rows have. */
function best(offers, typed, before = "") {
  const wanted = plain(typed);
  const order = ({ text, insert, rows = 0 }) => [rank(plain(text), wanted), wanted && before.includes(insert) ? 0 : 1, wanted ? -rows : 0];
  return offers
    .filter((offer) => plain(offer.text).includes(wanted) && offer.insert !== typed)
    .map((offer, index) => ({ offer, keys: [...order(offer), index] }))
    .sort((one, other) => one.keys.map((key, at) => key - other.keys[at]).find(Boolean) ?? 0)
    .slice(0, MOST)
    .map(({ offer }) => offer);
}

function plain(text) {
  return text.replaceAll('"', "").toLowerCase();
}

/** A field, or its last part, that is the text comes before one that begins with it, and that before what holds it. */
function rank(text, wanted) {
  const names = [text, text.replace(/^m\./, ""), text.slice(text.lastIndexOf(".") + 1)];
  if (names.includes(wanted)) return 0;
  return names.some((name) => name.startsWith(wanted)) ? 1 : 2;
}

function alone(offer) {
  return { ...offer, insert: offer.text === "t" ? "timestamp " : `${offer.text} `, goesOn: false };
}

function whole(text, note) {
  return { text, note, insert: `${text} `, goesOn: false };
}

function short(type) {
  return type === "timestamp with time zone" ? "time" : type;
}
