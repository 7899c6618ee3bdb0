// Puts what is typed into a field in the place of its word in every example, written as the example's language needs it.

// JSON's escapes are those of strings in JavaScript and Python too.
const inJson = (value) => JSON.stringify(value).slice(1, -1);

const WRITTEN = {
  curl: (value) => value.replaceAll("'", "'\\''"), // ends the quotes, a quoted quote, begins them again
  python: inJson,
  javascript: inJson,
};

export function fillExamples(root) {
  for (const field of root.querySelectorAll("[data-fill]")) {
    const word = field.dataset.fill;
    const show = () => {
      for (const place of root.querySelectorAll(`[data-word="${CSS.escape(word)}"]`)) {
        const write = WRITTEN[place.closest("[data-language]").dataset.language];
        place.textContent = field.value ? write(field.value) : word;
        place.classList.toggle("filled", Boolean(field.value));
      }
    };
    field.addEventListener("input", show);
    show(); // browsers may have kept what was typed before the page was loaded again
  }
}
