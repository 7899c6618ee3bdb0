/** What of a result can be drawn, and how: pure, from columns and rows to points. */

import { isRoundStep, roundStep } from "../shared/time_axis.js";
import { isNumeric } from "./table.js";

/** @typedef {{name: string, type: string}} Column */
/** @typedef {"time" | "number" | "category"} Kind */
/**
 * What is drawn; `values` are number columns, none for the count of rows; `split` makes one series of each of its values.
 * @typedef {{shape: "line" | "bar", across: string, values: string[], split: string}} Choice
 */
/** A value of null is a bucket without a row: a line has a gap there. @typedef {{across: number | string, value: number | null}} Point */
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
  const series = groups.shown.map(({ name, value, rows: of }) => ({ name, points: summed(of, places, value) }));
  for (const { points } of series) if (kind !== "category") points.sort((one, other) => Number(one.across) - Number(other.across));
  if (isTime) leaveGaps(series);
  const drawn = [...new Set(series.flatMap(({ points }) => points.map(({ across }) => across)))];
  const left = [groups.left && `${groups.left} more series`];
  if (choice.shape === "bar" && drawn.length > MOST_BARS) {
    const kept = new Set(drawn.slice(0, MOST_BARS));
    for (const one of series) one.points = one.points.filter(({ across }) => kept.has(across));
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
    const values = new Map(one.points.map(({ across, value }) => [across, value]));
    const own = all.filter((moment) => moment >= one.points[0]?.across && moment <= one.points.at(-1).across);
    one.points = own.map((across) => ({ across, value: values.get(across) ?? null }));
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

/** Where a row stands on the horizontal axis; `empty` are places that count as nought where no row stands. */
function placing({ across, values }, rows, kind) {
  if (kind === "category") return { place: (row) => String(row[across]), empty: [] };
  if (kind === "number") return { place: (row) => Number(row[across]), empty: [] };
  const moment = (row) => (row[across] === null ? NaN : Date.parse(row[across]));
  return values.length ? { place: moment, empty: [] } : buckets(rows.map(moment).filter(Number.isFinite), moment);
}

/** Rows counted over time stand in buckets of a round length. */
function buckets(moments, moment) {
  const least = moments.reduce((one, other) => Math.min(one, other), Infinity);
  const most = moments.reduce((one, other) => Math.max(one, other), -Infinity);
  const step = roundStep(most - least, BUCKETS);
  const start = (value) => Math.floor(value / step) * step;
  const empty = [];
  for (let value = start(least); value <= most; value += step) empty.push(value);
  return { place: (row) => start(moment(row)), empty };
}

function grouped({ values, split }, rows) {
  const value = (name) => (name === undefined ? () => 1 : (row) => (row[name] === null ? NaN : Number(row[name])));
  if (!split) {
    const names = values.length ? values : [undefined];
    return { shown: names.map((name) => ({ name: name ?? "rows", value: value(name), rows })), left: 0 };
  }
  const parts = Map.groupBy(rows, (row) => String(row[split]));
  const all = [...parts].map(([name, of]) => ({ name, value: value(values[0]), rows: of }));
  return { shown: all.slice(0, MOST_SERIES), left: Math.max(0, all.length - MOST_SERIES) };
}

function summed(rows, { place, empty }, value) {
  const sums = new Map(empty.map((across) => [across, 0]));
  for (const row of rows) {
    const across = place(row);
    if (typeof across === "number" && !Number.isFinite(across)) continue;
    const number = value(row);
    if (Number.isFinite(number)) sums.set(across, (sums.get(across) ?? 0) + number);
  }
  return [...sums].map(([across, sum]) => ({ across, value: sum }));
}
