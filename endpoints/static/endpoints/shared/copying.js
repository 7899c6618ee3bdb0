/**
 * Buttons that copy. A page's own is <button type="button" data-copies="id of the element with the text">Copy</button>.
 * The button itself says that it is done, and says it to screen readers too.
 */

import { h } from "./dom.js";

const SAYS_SO_MILLISECONDS = 4000;

/** A button for a text that no element shows; beside it stands what tells screen readers. */
export function copyButton(css, name, text) {
  const button = h("button", { type: "button", class: css }, name);
  return [button, prepare(button, () => h("pre", {}, text()))];
}

function prepare(button, source) {
  const name = [...button.childNodes];
  const status = h("span", { class: "sr-only", role: "status" });
  let timer = 0;
  button.addEventListener("click", async () => {
    const said = await copy(source());
    button.replaceChildren(said);
    status.textContent = said;
    clearTimeout(timer);
    timer = setTimeout(() => {
      button.replaceChildren(...name);
      status.textContent = "";
    }, SAYS_SO_MILLISECONDS);
  });
  return status;
}

/** Copy an element's text; what is returned says how that went. */
export async function copy(element) {
  try {
    await navigator.clipboard.writeText(element.textContent);
    return "Copied";
  } catch {
    // Without HTTPS browsers have no clipboard for pages, or the operator has refused it: the old way, or by hand.
    const isShown = element.isConnected;
    if (!isShown) document.body.append(element);
    window.getSelection().selectAllChildren(element);
    const isDone = document.execCommand("copy");
    if (!isShown) element.remove();
    return isDone ? "Copied" : isShown ? "Selected: press Ctrl+C" : "Not copied";
  }
}

for (const button of document.querySelectorAll("button[data-copies]")) {
  button.after(prepare(button, () => document.getElementById(button.dataset.copies)));
  button.hidden = false; // without scripts it would do nothing
}
