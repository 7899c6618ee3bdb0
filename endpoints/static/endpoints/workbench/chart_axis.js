/** A time axis for Chart.js's linear scale: round moments in UTC, written as short as they can be told apart. */

const SECOND = 1000;
const DAY = 86_400 * SECOND;
const STEPS = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000, 7_776_000, 31_536_000].map(
  (seconds) => seconds * SECOND,
);
const TICK_PIXELS = 90; // of the longest, "11-21 06:00", and some room

/**
 * @param {number} least
 * @param {number} most
 * @param {number} width of the axis in pixels
 * @returns {{value: number}[]} ticks between the two, in milliseconds since 1970
 */
export function timeTicks(least, most, width) {
  const count = Math.max(3, Math.floor(width / TICK_PIXELS));
  const step = STEPS.find((length) => (most - least) / length <= count) ?? Math.max(1, (most - least) / count);
  const ticks = [];
  for (let value = Math.ceil(least / step) * step; value <= most; value += step) ticks.push({ value });
  return ticks;
}

/**
 * @param {number} value milliseconds since 1970
 * @param {number} span of the axis, in milliseconds
 * @returns {string} in UTC
 */
export function shortMoment(value, span) {
  const text = new Date(value).toISOString();
  const [day, time] = [text.slice(5, 10), text.slice(11, 16)];
  if (span > 3 * DAY) return value % DAY ? `${day} ${time}` : day;
  if (span > DAY / 2) return `${day} ${time}`;
  return span > 600 * SECOND ? time : text.slice(11, 19);
}

/**
 * @param {number} value milliseconds since 1970
 * @returns {string} to the second, in UTC
 */
export function wholeMoment(value) {
  return `${new Date(value).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}
