/** How long a run has taken, of the time that it may take: in words and as a bar. */

import { byId, show } from "./dom.js";

const TICK_MILLISECONDS = 100;

/**
 * @param {number} started performance.now() at the start
 * @param {number} limit in seconds, after which PostgreSQL cancels; NaN where that is not known
 * @returns {() => void} ends it
 */
export function showElapsed(started, limit) {
  const [elapsed, progress] = [byId("wb-elapsed"), byId("wb-progress")];
  progress.max = limit > 0 ? limit : 1;
  const tick = () => {
    show(elapsed, `${seconds(started).toFixed(1)} s${limit > 0 ? ` of at most ${limit} s` : ""}`);
    progress.value = Math.min(seconds(started), progress.max);
  };
  tick();
  const timer = window.setInterval(tick, TICK_MILLISECONDS);
  return () => {
    window.clearInterval(timer);
    show(elapsed);
  };
}

/**
 * @param {number} started performance.now() then
 * @returns {number} seconds since
 */
export function seconds(started) {
  return (performance.now() - started) / 1000;
}
