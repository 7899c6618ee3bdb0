/** The page "Usage": examples that are filled in and copied. */

import "../shared/copying.js";
import { tabs } from "../shared/dom.js";

// What is typed is written as the example's language needs it.
const inJson = (value) => JSON.stringify(value).slice(1, -1); // its escapes are those of JavaScript and Python too
const WRITTEN = {
  shell: (value) => value.replaceAll("'", "'\\''"), // ends the quotes, a quoted quote, begins them again
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

const languages = document.querySelector(".languages");
languages.hidden = false;
tabs(languages);
