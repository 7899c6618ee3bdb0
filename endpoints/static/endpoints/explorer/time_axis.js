/** The line of times below the bars: round moments, as many as fit. */

import { h } from "../workbench/dom.js";
import { writeMoment } from "./range.js";

/** @typedef {import("./range.js").Range} Range */

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

/**
 * @param {Range} range
 * @param {number} width in pixels
 * @returns {HTMLElement}
 */
export function timeAxis(range, width) {
  const all = ticks(range, Math.max(2, Math.floor(width / TICK_PIXELS)));
  const marks = all.filter(({ at }) => at * width + TICK_PIXELS <= width).map(({ at, text }) => {
    const mark = h("span", { class: "lx-tick" }, text);
    mark.style.left = `${at * 100}%`;
    return mark;
  });
  return h("div", { class: "lx-axis", "aria-hidden": "true" }, marks);
}

/**
 * Round moments of a range, at most as many, each with as much of it as tells them apart.
 * @param {Range} range
 * @param {number} most
 * @returns {{at: number, text: string}[]} `at`: from 0, the start, to 1
 */
function ticks({ start, end }, most) {
  const first = start.getTime();
  const length = end.getTime() - first;
  const step = STEPS.find((width) => length / width <= most) ?? STEPS[STEPS.length - 1];
  const found = [];
  for (let moment = Math.ceil(first / step) * step; moment < end.getTime(); moment += step) {
    found.push({ at: (moment - first) / length, text: tick(writeMoment(new Date(moment)), step) });
  }
  return found;
}

function tick(text, step) {
  if (step >= DAY) return text.slice(0, 10);
  const time = step < MINUTE ? text.slice(11, 19) : text.slice(11, 16);
  return time === "00:00" ? text.slice(5, 10) : time;
}
