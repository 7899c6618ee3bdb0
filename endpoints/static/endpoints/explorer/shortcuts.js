/** Keys that work anywhere on the page, unless somebody types; the dialog that lists them can turn them off. */

import { byId } from "../shared/dom.js";
import { recall, remember } from "./preferences.js";

const WRITABLE = "input, select, textarea, [contenteditable]";

/** Listen for the keys; `actions` has a function for each of them. The list opens by `?` and by its button. */
export function listenForShortcuts(actions) {
  const dialog = byId("lx-keys");
  const isOn = byId("lx-keys-on");
  isOn.checked = recall("shortcuts") !== "off";
  isOn.addEventListener("change", () => remember("shortcuts", isOn.checked ? "on" : "off"));
  byId("lx-keys-open").addEventListener("click", () => dialog.showModal());
  document.addEventListener("keydown", (event) => {
    const action = event.key === "?" ? () => dialog.showModal() : actions[event.key];
    const isTyped = event.target instanceof Element && event.target.closest(WRITABLE) !== null;
    if (!action || !isOn.checked || isTyped || dialog.open || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  });
}
