// Buttons that copy the text of an element, and say so.

const SHOWN_MILLISECONDS = 4000;

export function offerCopies(root) {
  for (const button of root.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", () => copyFor(button));
  }
}

async function copyFor(button) {
  const source = document.getElementById(button.dataset.copy);
  const said = button.parentElement.querySelector("[role=status]");
  said.textContent = (await copyText(source)) ? "copied" : "not copied: select the text and copy it";
  clearTimeout(Number(said.dataset.timer));
  said.dataset.timer = setTimeout(() => (said.textContent = ""), SHOWN_MILLISECONDS);
}

async function copyText(source) {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(source.textContent);
      return true;
    } catch {
      // Not permitted here: the older way may be.
    }
  }
  // Browsers have no clipboard API for pages that came over plain HTTP from another machine.
  window.getSelection().selectAllChildren(source);
  return document.execCommand("copy");
}
