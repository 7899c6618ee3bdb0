/** A search that runs again by itself, as long as that is wished and nobody reads a row. */

import { byId } from "../workbench/dom.js";

const PAUSE_MILLISECONDS = 10_000;

/**
 * @param {() => void} run
 * @param {() => boolean} isRunning
 */
export function keepRunning(run, isRunning) {
  window.setInterval(() => {
    const isRead = document.hidden || document.querySelector(".lx-row[open]") !== null;
    if (byId("lx-live").checked && !isRead && !isRunning()) run();
  }, PAUSE_MILLISECONDS);
}
