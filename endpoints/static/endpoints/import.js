// django-unfold's script looks beside every file input for a text input to write the chosen name into, and fails where
// there is none. The browser's own input, which this page has, tells the names of all chosen files by itself.
document
  .querySelector(".import-form")
  .addEventListener("change", (event) => event.stopPropagation(), { capture: true });
