/** Axes of time: round moments, as many as fit, and how a moment is written. Everything is UTC. */

const TICK_PIXELS = 90; // a date needs as much
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [
  ...[1, 2, 5, 10, 15, 30].map((count) => count * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((count) => count * MINUTE),
  ...[1, 2, 3, 6, 12].map((count) => count * HOUR),
  ...[1, 2, 4, 7, 14, 28, 56, 112].map((count) => count * DAY),
];

/** The shortest round step that cuts a length of time, in milliseconds, into at most as many parts. */
export function roundStep(length, most) {
  return STEPS.find((step) => length / step <= most) ?? Math.ceil(length / most / DAY) * DAY;
}

/** Whether a length of time, in milliseconds, is a step that buckets have: whole days, or one of the steps here. */
export function isRoundStep(length) {
  return STEPS.includes(length) || (length > 0 && length % DAY === 0);
}

/** Round moments, in milliseconds since 1970, from `first` to `last`, each with as much of it as tells them apart. */
export function timeTicks(first, last, pixels) {
  const step = roundStep(last - first, Math.max(2, Math.floor(pixels / TICK_PIXELS)));
  const ticks = [];
  for (let value = Math.ceil(first / step) * step; value <= last; value += step) ticks.push({ value, text: short(value, step) });
  return ticks;
}

/** Whether a tick's text fits before the end of the axis; `at` is its place, from 0 to 1. */
export function hasRoom(at, pixels) {
  return at * pixels + TICK_PIXELS <= pixels;
}

/** 2026-01-31 08:00:00, with milliseconds only where there are any. */
export function writeMoment(moment) {
  return new Date(moment).toISOString().replace("T", " ").replace(/(\.000)?Z$/, "");
}

/** A stretch of time in words. */
export function between(start, end) {
  return `${writeMoment(start)} to ${writeMoment(end)} UTC`;
}

function short(value, step) {
  const text = writeMoment(value);
  if (step >= DAY) return text.slice(0, 10);
  const time = step < MINUTE ? text.slice(11, 19) : text.slice(11, 16);
  return time === "00:00" ? text.slice(5, 10) : time;
}
