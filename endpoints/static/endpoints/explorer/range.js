/** Ranges of time and how they are written. Everything is UTC, whatever the browser's own time zone is. */

const SECOND = 1000;
const LENGTHS = { "15m": 900 * SECOND, "1h": 3600 * SECOND, "24h": 86_400 * SECOND, "7d": 604_800 * SECOND };
const WRITTEN = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?))?(?: ?(?:Z|UTC))?$/;

/** @typedef {{start: Date, end: Date}} Range from `start` to before `end` */

/**
 * @param {string} name
 * @returns {boolean} whether it is a range that ends now
 */
export function isRelative(name) {
  return name in LENGTHS;
}

/**
 * The range that ends with the second that has just begun.
 * @param {string} name
 * @param {number} now milliseconds, by the service's clock
 * @returns {Range}
 */
export function lastOf(name, now) {
  const end = Math.ceil((now + 1) / SECOND) * SECOND;
  return { start: new Date(end - LENGTHS[name]), end: new Date(end) };
}

/**
 * @param {string} text a day or a moment, in UTC: 2026-01-31, 2026-01-31 08:00, 2026-01-31T08:00:00.5Z
 * @returns {Date | null} null where it is none
 */
export function readMoment(text) {
  const found = WRITTEN.exec(text.trim());
  if (!found) return null;
  const [, day, time = "00:00"] = found;
  const moment = new Date(`${day}T${time}Z`);
  // Date takes 31 February for 3 March.
  return Number.isNaN(moment.getTime()) || !moment.toISOString().startsWith(day) ? null : moment;
}

/**
 * 2026-01-31 08:00:00, with milliseconds only where there are any.
 * @param {Date} moment
 * @returns {string}
 */
export function writeMoment(moment) {
  return moment.toISOString().replace("T", " ").replace(/(\.000)?Z$/, "");
}

/**
 * The same length, moved or grown around its middle.
 * @param {Range} range
 * @param {{by?: number, times?: number}} change `by` lengths to the later, `times` as wide
 * @param {number} longest milliseconds
 * @returns {Range}
 */
export function changed({ start, end }, { by = 0, times = 1 }, longest) {
  const length = end.getTime() - start.getTime();
  const grown = Math.min(length * times, longest);
  const from = start.getTime() + by * length - (grown - length) / 2;
  const first = Math.round(from / SECOND) * SECOND;
  return { start: new Date(first), end: new Date(first + Math.max(SECOND, Math.round(grown / SECOND) * SECOND)) };
}
