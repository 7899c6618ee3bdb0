/** The page "Usage": examples that are filled in and copied. */

import "../shared/copying.js";
import { tabs } from "../shared/dom.js";

// JSON's escapes are those of strings in JavaScript and Python too.
const inJson = (value) => JSON.stringify(value).slice(1, -1);

// What is typed is written as the example's language needs it.
const inShell = (value) => value.replaceAll("'", "'\\''"); // ends the quotes, a quoted quote, begins them again
const WRITTEN = {
  shell: inShell,
  json_in_shell: (value) => inShell(inJson(value)),
  python: inJson,
  javascript: inJson,
};

for (const field of document.querySelectorAll("[data-fill]")) {
  const word = field.dataset.fill;
  const fill = () => {
    for (const place of document.querySelectorAll(`[data-word="${CSS.escape(word)}"]`)) {
      const write = WRITTEN[place.closest("[data-language]").dataset.language];
      place.textContent = field.value ? write(field.value) : word;
      place.classList.toggle("filled", Boolean(field.value));
    }
  };
  field.addEventListener("input", fill);
  fill(); // browsers may have kept what was typed before the page was loaded again
}

for (const languages of document.querySelectorAll(".languages")) {
  languages.hidden = false;
  tabs(languages);
}

const ways = document.querySelector(".ways");
const choices = document.querySelector(".choices");

// The address names the way that is shown, and the links that choose a query keep it.
function keep(id) {
  const tab = document.getElementById(id);
  const way = tab.getAttribute("aria-controls").replace("way-", "");
  if (choices) {
    choices.hidden = tab.dataset.takesQuery === undefined;
    for (const link of choices.querySelectorAll("a")) {
      const address = new URL(link.href);
      address.searchParams.set("way", way);
      link.href = address.href;
    }
  }
  const address = new URL(location.href);
  if (address.searchParams.get("way") === way) return;
  address.searchParams.set("way", way);
  history.replaceState(history.state, "", address);
}

ways.hidden = false;
for (const title of document.querySelectorAll(".way-title")) title.hidden = true; // the tab says so
tabs(ways, keep);
