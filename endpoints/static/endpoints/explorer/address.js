/**
 * What is looked for, as the page's address: it can be shared, and the browser's back button leads through it.
 * Every moment in it is UTC, whichever clock the page shows; a range is from `start` to before `end`.
 */

import { readPath } from "./paths.js";

/**
 * @typedef {object} Search
 * @property {string} source
 * @property {string} project "" for every project
 * @property {string} lql
 * @property {string} range a relative range, or "custom"
 * @property {string} start of a custom range, in ISO 8601
 * @property {string} end
 * @property {boolean} redact
 * @property {import("./grid.js").Sort | null} sort of chosen columns
 */

const SECOND = 1000;
const UNITS = { m: 60 * SECOND, h: 3600 * SECOND, d: 86_400 * SECOND };
const RANGES = ["5m", "15m", "30m", "1h", "3h", "6h", "12h", "24h", "2d", "7d", "30d"];
const LENGTHS = Object.fromEntries(RANGES.map((name) => [name, Number.parseInt(name, 10) * UNITS[name.at(-1)]]));
const DEFAULT_RANGE = "1h";
const WRITTEN = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?))?(?: ?(?:Z|UTC))?$/;

/** Whether it is the name of a range that ends now. */
export function isRelative(name) {
  return name in LENGTHS;
}

/** The range that ends with the second that has just begun by the service's clock. */
export function lastOf(name, now) {
  const end = Math.ceil((now + 1) / SECOND) * SECOND;
  return { start: new Date(end - LENGTHS[name]), end: new Date(end) };
}

/** The same length, `by` lengths later, or grown around its middle to `times` its width, but no longer than `longest`. */
export function changed({ start, end }, { by = 0, times = 1 }, longest) {
  const length = end.getTime() - start.getTime();
  const grown = Math.min(length * times, longest);
  const from = start.getTime() + by * length - (grown - length) / 2;
  const first = Math.round(from / SECOND) * SECOND;
  return { start: new Date(first), end: new Date(first + Math.max(SECOND, Math.round(grown / SECOND) * SECOND)) };
}

/** A day or a moment, such as 2026-01-31, 2026-01-31 08:00 or 2026-01-31T08:00:00.5Z; null for any other text. */
export function readMoment(text) {
  const found = WRITTEN.exec(text.trim());
  if (!found) return null;
  const [, day, time = "00:00"] = found;
  const moment = new Date(`${day}T${time}Z`);
  // Date takes 31 February for 3 March.
  return Number.isNaN(moment.getTime()) || !moment.toISOString().startsWith(day) ? null : moment;
}

export function readAddress(query, sources) {
  const given = new URLSearchParams(query);
  const text = (name) => given.get(name) ?? "";
  const start = readMoment(text("start"));
  const end = readMoment(text("end"));
  const isCustom = start !== null && end !== null;
  return {
    source: sources.includes(text("source")) ? text("source") : sources[0],
    project: text("project"),
    lql: text("lql"),
    range: isCustom ? "custom" : isRelative(text("range")) ? text("range") : DEFAULT_RANGE,
    start: isCustom ? start.toISOString() : "",
    end: isCustom ? end.toISOString() : "",
    redact: given.has("redact"),
    sort: readSort(text("sort")),
  };
}

/** metadata.level:desc */
function readSort(text) {
  const [, name, order] = /^(.+?)(?::(asc|desc))?$/.exec(text) ?? [];
  return name ? { name, isDescending: order === "desc" } : null;
}

export function writeAddress({ source, project, lql, range, start, end, redact, sort }) {
  const told = new URLSearchParams({ source });
  if (project) told.set("project", project);
  if (lql) told.set("lql", lql);
  if (range === "custom") {
    told.set("start", start);
    told.set("end", end);
  } else told.set("range", range);
  if (redact) told.set("redact", "1");
  if (sort) told.set("sort", `${sort.name}:${sort.isDescending ? "desc" : "asc"}`);
  return `?${told}`;
}

/** What a query chooses: the names of each path by what its column is called. Quoted text has no clauses. */
export function chosenBy(lql) {
  const clauses = lql.matchAll(/"(?:[^"\\]|\\.)*"|(?:^|\s)(?:s|select):((?:[\w.]|"(?:[^"\\]|\\.)*")+)(?:@(\w+))?(?=\s|$)/gs);
  const columns = [...clauses].filter(([, path]) => path).map(([, path, alias]) => [path === "t" ? ["timestamp"] : readPath(path), alias]);
  return new Map(columns.map(([keys, alias]) => [alias ?? keys.join("."), keys]));
}

/** The address of the form of a new endpoint that gives these rows. */
export function saveAddress(emptyForm, { source, project, lql }) {
  const told = new URLSearchParams({ log_source: source });
  if (!project) told.set("every_project", "1");
  if (lql.trim()) told.set("lql", lql);
  return `${emptyForm}?${told}`;
}
