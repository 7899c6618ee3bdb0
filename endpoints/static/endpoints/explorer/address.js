/** What is looked for, as the page's address: it can be shared, and the browser's back button leads through it. */

import { isRelative, readMoment } from "./range.js";

/**
 * @typedef {object} Search
 * @property {string} source
 * @property {string} project "" for every project
 * @property {string} lql
 * @property {string} range a relative range, or "custom"
 * @property {string} start of a custom range, in ISO 8601
 * @property {string} end
 * @property {boolean} redact
 */

const DEFAULT_RANGE = "1h";

/**
 * @param {string} query the address behind its question mark
 * @param {string[]} sources
 * @returns {Search}
 */
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
  };
}

/**
 * @param {Search} search
 * @returns {string} with its question mark
 */
export function writeAddress({ source, project, lql, range, start, end, redact }) {
  const told = new URLSearchParams({ source });
  if (project) told.set("project", project);
  if (lql) told.set("lql", lql);
  if (range === "custom") {
    told.set("start", start);
    told.set("end", end);
  } else told.set("range", range);
  if (redact) told.set("redact", "1");
  return `?${told}`;
}

/**
 * The address of the form of a new endpoint that gives these rows.
 * @param {string} address of the empty form
 * @param {Search} search
 * @returns {string}
 */
export function saveAddress(address, { source, project, lql }) {
  const told = new URLSearchParams({ log_source: source });
  if (!project) told.set("every_project", "1");
  if (lql.trim()) told.set("lql", lql);
  return `${address}?${told}`;
}
