/**
 * Elements made in one expression, and the few things every module does with them.
 * Text is always set as text: what comes from a database never becomes markup.
 */

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * Make an HTML element. Attributes that begin with "on" are listeners, true and false switch an attribute on and off.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/**
 * Make an SVG element, as `h` does.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {SVGElement}
 */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/**
 * The element of the page with this id, which the template has.
 * @param {string} id
 * @returns {any}
 */
export function byId(id) {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`The page has no #${id}.`);
  return element;
}

/**
 * Replace what an element holds.
 * @param {Element} element
 * @param {...(Child | Child[])} children
 */
export function show(element, ...children) {
  element.replaceChildren(...present(children));
}

/**
 * Call `work` once nothing has called for `milliseconds`.
 * @param {() => void} work
 * @param {number} milliseconds
 * @returns {() => void}
 */
export function afterPause(work, milliseconds) {
  let timer = 0;
  return () => {
    window.clearTimeout(timer);
    timer = window.setTimeout(work, milliseconds);
  };
}

/**
 * A count with its noun: 1 row, 2 rows, 12,345 rows.
 * @param {number} count
 * @param {string} noun
 * @returns {string}
 */
export function counted(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
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
