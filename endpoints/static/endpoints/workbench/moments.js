/** Moments for an input of type datetime-local, which has no time zone: here it means UTC. */

import { h } from "./dom.js";

const MOMENTS = [
  ["now", 0],
  ["−1 h", 3_600_000],
  ["−1 d", 86_400_000],
  ["−7 d", 7 * 86_400_000],
];

/**
 * Moments that are asked for all the time, counted back from the click.
 * @param {string} name of the parameter
 * @param {(value: string) => void} set
 * @returns {HTMLElement}
 */
export function momentButtons(name, set) {
  const button = ([label, milliseconds]) => {
    const onclick = () => set(new Date(Date.now() - milliseconds).toISOString().slice(0, 19));
    return h("button", { type: "button", class: "wb-link", "aria-label": `@${name}: ${label}`, onclick }, label);
  };
  return h("div", { class: "wb-moments" }, MOMENTS.map(button));
}

/**
 * Seconds are left out of the input's value where they are 0.
 * @param {string} value
 * @returns {string}
 */
export function inUtc(value) {
  return value.length === "2026-01-01T00:00".length ? `${value}:00Z` : `${value}Z`;
}
