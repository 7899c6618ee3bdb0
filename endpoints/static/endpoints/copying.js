// Buttons that copy: <button type="button" data-copies="id of the element with the text">Copy</button>.
// The button itself says that it is done, and says it to screen readers too.

const SAYS_SO_MILLISECONDS = 2500;

function select(element) {
  const range = document.createRange();
  range.selectNodeContents(element);
  const selection = window.getSelection();
  selection.removeAllRanges();
  selection.addRange(range);
}

async function copy(element) {
  try {
    await navigator.clipboard.writeText(element.textContent);
    return true;
  } catch {
    // Without HTTPS browsers have no clipboard for pages, or the operator has refused it: the old way, or by hand.
    select(element);
    return document.execCommand("copy");
  }
}

function announcer(button) {
  const status = document.createElement("span");
  status.setAttribute("role", "status");
  status.className = "sr-only";
  button.after(status);
  return status;
}

function prepare(button) {
  const name = button.textContent.trim();
  const status = announcer(button);
  let timer = 0;
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copies);
    const done = source !== null && (await copy(source));
    button.textContent = done ? "Copied" : "Selected: press Ctrl+C";
    status.textContent = button.textContent;
    clearTimeout(timer);
    timer = setTimeout(() => {
      button.textContent = name;
      status.textContent = "";
    }, SAYS_SO_MILLISECONDS);
  });
}

document.querySelectorAll("button[data-copies]").forEach(prepare);
