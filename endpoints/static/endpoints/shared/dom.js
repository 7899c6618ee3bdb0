/**
 * Elements made in one expression, and the few things every module does with them.
 * Text is always set as text: what comes from a database never becomes markup.
 */

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. Attributes that begin with "on" are listeners, true and false switch an attribute on and off. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element, made as `h` makes one. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** A button that does something on this page. */
export function button(css, onclick, ...children) {
  return h("button", { type: "button", class: css, onclick }, ...children);
}

/** A table with a line of headings; each line is a list of cells: what a cell holds, or the cell itself. */
export function table(css, headings, lines) {
  const cell = (child) => (child instanceof HTMLTableCellElement ? child : h("td", {}, child));
  return h(
    "table",
    { class: css },
    h("thead", {}, h("tr", {}, headings.map((text) => h("th", { scope: "col" }, text)))),
    h("tbody", {}, lines.map((line) => h("tr", {}, line.map(cell)))),
  );
}

/** The element of the page with this id, which the template has. */
export function byId(id) {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`The page has no #${id}.`);
  return element;
}

/** Replace what an element holds. */
export function show(element, ...children) {
  element.replaceChildren(...present(children));
}

/** A count with its noun: 1 row, 2 rows, 12,345 rows. */
export function counted(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/** A number with so many decimals, or with its first digit where these are all nought and the number is not. */
export function rounded(value, decimals) {
  const text = value.toFixed(decimals);
  return value && !Number(text) ? String(Number(value.toPrecision(1))) : text;
}

/**
 * Tabs by the pattern of the ARIA authoring practices: one is in the tab order, arrow keys choose among them.
 * The list has role tablist, its tabs name their panels in aria-controls. What is returned chooses a tab from elsewhere.
 */
export function tabs(list, chosen = () => {}) {
  const all = [...list.querySelectorAll("[role=tab]")];
  const isChosen = (tab) => tab.getAttribute("aria-selected") === "true";

  const choose = (id) => {
    for (const tab of all) {
      const selected = tab.id === id;
      tab.setAttribute("aria-selected", String(selected));
      tab.tabIndex = selected ? 0 : -1;
      const panel = document.getElementById(tab.getAttribute("aria-controls") ?? "");
      if (panel) panel.hidden = !selected;
    }
    chosen(id);
  };

  const step = (event) => {
    const here = all.findIndex(isChosen);
    const last = all.length - 1;
    const to = { ArrowRight: (here + 1) % all.length, ArrowLeft: here ? here - 1 : last, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(all[to].id);
    all[to].focus();
  };

  for (const tab of all) tab.addEventListener("click", () => choose(tab.id));
  list.addEventListener("keydown", step);
  choose((all.find(isChosen) ?? all[0]).id);
  return choose;
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...present(children));
  return element;
}

function present(children) {
  return children
    .flat()
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (typeof child === "number" ? String(child) : child));
}
