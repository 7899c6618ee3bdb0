/** What of a result can be drawn, and how: pure, from columns and rows to points. */

import { counted } from "../shared/dom.js";
import { compareExactly, numberKey, sumExactly } from "../shared/exact_json.js";
import { isRoundStep, roundStep } from "../shared/time_axis.js";
import { isNumeric } from "./table.js";

/** @typedef {{name: string, type: string}} Column */
/** @typedef {"time" | "number" | "category"} Kind */
/**
 * What is drawn; `values` are number columns, none for the count of rows; `split` makes one series of each of its values.
 * @typedef {{shape: "line" | "bar", across: string, values: string[], split: string}} Choice
 */
/**
 * `value` is where it is drawn, `text` its digits; both are null in a bucket without a row, where a line has a gap. Points
 * of one `key` stand at the same place: `across` is where that is drawn, `label` its digits.
 * @typedef {{key: number | string, across: number | string, label: string, value: number | null, text: string | null}} Point
 */
/** @typedef {{isTime: boolean, series: {name: string, points: Point[]}[], left: string}} Drawing */

const MOST_SERIES = 8;
const MOST_BARS = 40;
const MOST_BUCKETS = 5000; // of the query's own; as many as a browser draws quickly
const BUCKETS = 48; // at most, of a count of rows over time
const TIME = /^\d{4}-\d\d-\d\d([T ]\d\d:\d\d|$)/;
const CATEGORY_TYPES = /^(text|character|boolean|uuid|date|"?char|name|inet)/;

/** The kind of a column; null for what cannot be drawn, such as JSON. */
export function kindOf({ name, type }, rows) {
  if (isNumeric(type)) return "number";
  if (/^(timestamp|date)/.test(type)) return "time";
  const present = rows.map((row) => row[name]).filter((value) => value !== null && value !== undefined);
  if (type === "text" && present.length && present.every((value) => TIME.test(value))) return "time";
  return CATEGORY_TYPES.test(type) ? "category" : null;
}

/** What the columns suggest to draw; null where nothing can be drawn. */
export function suggest(columns, rows) {
  if (!rows.length) return null;
  const named = (kind) => columns.filter((column) => kindOf(column, rows) === kind).map(({ name }) => name);
  const [times, numbers, categories] = [named("time"), named("number"), named("category")];
  const few = (name) => new Set(rows.map((row) => String(row[name]))).size;
  if (times.length) {
    const across = times[0];
    const repeats = few(across) < rows.length;
    const split = repeats && numbers.length === 1 ? categories.find((name) => few(name) <= MOST_SERIES) ?? "" : "";
    return { shape: "line", across, values: numbers.slice(0, MOST_SERIES), split };
  }
  // A column that is different in every row groups nothing, unless there are numbers to compare by it.
  const across = categories.find((name) => numbers.length || few(name) < rows.length);
  if (across !== undefined) return { shape: "bar", across, values: numbers.slice(0, MOST_SERIES), split: "" };
  if (numbers.length > 1) return { shape: "line", across: numbers[0], values: numbers.slice(1, MOST_SERIES + 1), split: "" };
  return null;
}

export function draw(choice, columns, rows) {
  const column = columns.find(({ name }) => name === choice.across);
  const kind = column ? kindOf(column, rows) : null;
  const isTime = kind === "time";
  const places = placing(choice, rows, kind);
  const groups = grouped(choice, rows);
  const series = groups.shown.map(({ name, value, rows: of }) => ({ name, ...summed(of, places, value) }));
  for (const { points } of series) if (kind !== "category") points.sort((one, other) => compareExactly(one.label, other.label));
  if (isTime) leaveGaps(series);
  const drawn = [...new Set(series.flatMap(({ points }) => points.map(({ key }) => key)))];
  const undrawable = series.reduce((sum, one) => sum + one.undrawable, 0);
  const left = [groups.left && `${groups.left} more series`, undrawable && `${counted(undrawable, "value")} (NULL, NaN or too large)`];
  if (choice.shape === "bar" && drawn.length > MOST_BARS) {
    const kept = new Set(drawn.slice(0, MOST_BARS));
    for (const one of series) one.points = one.points.filter(({ key }) => kept.has(key));
    left.push(`${drawn.length - MOST_BARS} more values of ${choice.across}`);
  }
  return { isTime, series, left: left.filter(Boolean).join(" and ") };
}

/** Put a value of null where the query's own buckets of time lack one; moments in no rhythm have no buckets. */
function leaveGaps(series) {
  const moments = [...new Set(series.flatMap(({ points }) => points.map(({ across }) => across)))].sort((one, other) => one - other);
  const all = rhythm(moments);
  if (all === null) return;
  for (const one of series) {
    const points = new Map(one.points.map((point) => [point.across, point]));
    const own = all.filter((moment) => moment >= one.points[0]?.across && moment <= one.points.at(-1).across);
    one.points = own.map((across) => points.get(across) ?? { ...placeAt(across), value: null, text: null });
  }
}

/** Every bucket from the first moment to the last, if most of them follow each other at one round step; else null. */
function rhythm(moments) {
  if (moments.length < 3) return null;
  const months = moments.map(monthNumber);
  const isMonthly = months.every((month) => month !== null);
  const places = isMonthly ? months : moments;
  const gaps = places.slice(1).map((place, index) => place - places[index]);
  const step = gaps.reduce((one, other) => Math.min(one, other));
  const isRegular = gaps.every((gap) => gap % step === 0) && gaps.filter((gap) => gap === step).length * 2 >= gaps.length;
  if (!isRegular || !(isMonthly || isRoundStep(step)) || (places.at(-1) - places[0]) / step > MOST_BUCKETS) return null;
  const found = [];
  for (let place = places[0]; place <= places.at(-1); place += step) found.push(isMonthly ? startOfMonth(place) : place);
  return found;
}

/** The number of a month, counted from the year 0; null for a moment that begins none. */
function monthNumber(moment) {
  const date = new Date(moment);
  const number = date.getUTCFullYear() * 12 + date.getUTCMonth();
  return startOfMonth(number) === moment ? number : null;
}

function startOfMonth(number) {
  return Date.UTC(Math.floor(number / 12), number % 12);
}

/** Where a row stands on the horizontal axis, null for nowhere; `empty` are places that count as nought without a row. */
function placing({ across, values }, rows, kind) {
  if (kind === "category") return { place: (row) => placeAt(String(row[across])), empty: [] };
  if (kind === "number") return { place: (row) => placeOf(String(row[across])), empty: [] };
  const moment = (row) => (row[across] === null ? NaN : Date.parse(row[across]));
  const place = (row) => (Number.isFinite(moment(row)) ? placeAt(moment(row)) : null);
  return values.length ? { place, empty: [] } : buckets(rows.map(moment).filter(Number.isFinite), moment);
}

function placeAt(across) {
  return { key: across, across, label: String(across) };
}

/** The place of a number: those that a double cannot tell apart stand at two. */
function placeOf(label) {
  return Number.isFinite(Number(label)) ? { key: numberKey(label), across: Number(label), label } : null;
}

/** Rows counted over time stand in buckets of a round length. */
function buckets(moments, moment) {
  const least = moments.reduce((one, other) => Math.min(one, other), Infinity);
  const most = moments.reduce((one, other) => Math.max(one, other), -Infinity);
  const step = roundStep(most - least, BUCKETS);
  const start = (value) => Math.floor(value / step) * step;
  const empty = [];
  for (let value = start(least); value <= most; value += step) empty.push(placeAt(value));
  return { place: (row) => (Number.isFinite(moment(row)) ? placeAt(start(moment(row))) : null), empty };
}

function grouped({ values, split }, rows) {
  const value = (name) => (name === undefined ? () => "1" : (row) => String(row[name]));
  if (!split) {
    const names = values.length ? values : [undefined];
    return { shown: names.map((name) => ({ name: name ?? "rows", value: value(name), rows })), left: 0 };
  }
  const parts = Map.groupBy(rows, (row) => String(row[split]));
  const all = [...parts].map(([name, of]) => ({ name, value: value(values[0]), rows: of }));
  return { shown: all.slice(0, MOST_SERIES), left: Math.max(0, all.length - MOST_SERIES) };
}

/** The points, each with the sum of the values at its place, and how many values have no place or no height. */
function summed(rows, { place, empty }, value) {
  const found = new Map(empty.map((at) => [at.key, { at, texts: [] }]));
  let undrawable = 0;
  for (const row of rows) {
    const [at, text] = [place(row), value(row)];
    if (at === null || !Number.isFinite(Number(text))) {
      undrawable += 1;
      continue;
    }
    if (!found.has(at.key)) found.set(at.key, { at, texts: [] });
    found.get(at.key).texts.push(text);
  }
  const points = [...found.values()].map(({ at, texts }) => {
    const text = sumExactly(texts);
    return { ...at, value: Number(text), text };
  });
  return { points, undrawable };
}
