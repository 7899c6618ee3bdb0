/** One typed input for each parameter that the SQL uses; what was typed stays while the declarations change. */

import { byId, h, show } from "./dom.js";
import { inUtc, momentButtons } from "./moments.js";

/** @typedef {import("./draft.js").Parameter} Parameter */

const FORM = "wb-form";
const NOT_SENT = "— not sent —";
const INPUT_TYPES = {
  integer: { type: "number", step: "1", inputmode: "numeric" },
  number: { type: "number", step: "any", inputmode: "decimal" },
  timestamp: { type: "datetime-local", step: "1" },
  date: { type: "date" },
};
const HINTS = { timestamp: "UTC", "list of text": "one a line", uuid: "UUID" };

export class ArgumentInputs {
  /** @param {import("./memory.js").PageMemory} memory */
  constructor(memory) {
    this.place = byId("wb-arguments");
    this.memory = memory;
    /** @type {Map<string, string>} by type and name */
    this.values = new Map(Object.entries(memory.kept.arguments));
    /** @type {Parameter[]} */
    this.parameters = [];
  }

  /**
   * Show inputs for these; those that have not changed stay as they are, the focus too.
   * @param {Parameter[]} parameters
   */
  show(parameters) {
    if (JSON.stringify(parameters) === JSON.stringify(this.parameters)) return;
    this.parameters = parameters;
    const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.id;
    show(this.place, parameters.map((parameter) => this.row(parameter)));
    if (focused?.startsWith("wb-argument-")) document.getElementById(focused)?.focus();
  }

  /** @returns {Record<string, string | string[]>} what is sent: nothing for an input that was left empty */
  read() {
    const sent = {};
    for (const parameter of this.parameters) {
      const { name, type } = parameter;
      const value = this.value(parameter);
      if (value.trim() === "") continue;
      sent[name] = type === "list of text" ? lines(value) : type === "timestamp" ? inUtc(value) : value;
    }
    return sent;
  }

  /**
   * Say at its input what is wrong with an argument.
   * @param {{name?: string, reason?: string}[]} faults
   * @returns {boolean} whether one of the inputs is at fault
   */
  mark(faults) {
    let first = null;
    for (const parameter of this.parameters) {
      const fault = faults.find((one) => one.name === parameter.name);
      const input = byId(inputId(parameter.name));
      const message = byId(`${inputId(parameter.name)}-fault`);
      show(message, fault?.reason ?? "");
      message.hidden = !fault;
      input.setAttribute("aria-invalid", String(fault !== undefined));
      first ??= fault && input;
    }
    first?.focus();
    return Boolean(first);
  }

  row(parameter) {
    const id = inputId(parameter.name);
    const hints = [HINTS[parameter.type], parameter.default && `default ${parameter.default}`, parameter.description];
    return h(
      "div",
      { class: "wb-argument" },
      h(
        "label",
        { class: "wb-label", for: id },
        h("code", {}, `@${parameter.name}`),
        parameter.required ? h("span", { class: "wb-required" }, " required") : null,
        h("span", { class: "wb-hint" }, ` ${parameter.type}`),
      ),
      this.input(parameter, id),
      parameter.type === "timestamp" && !parameter.allowed_values.length ? momentButtons(parameter.name, (value) => this.fill(parameter, value)) : null,
      h("p", { class: "wb-hint", id: `${id}-hint` }, hints.filter(Boolean).join(" · ")),
      h("p", { class: "wb-fault", id: `${id}-fault`, hidden: true }),
    );
  }

  input(parameter, id) {
    const value = this.value(parameter);
    const keep = (event) => this.keep(parameter, event.target.value);
    const common = {
      id,
      form: FORM,
      class: "wb-input",
      "aria-describedby": `${id}-hint ${id}-fault`,
      oninput: keep,
      onchange: keep,
    };
    const choices = choicesOf(parameter);
    if (parameter.type === "list of text") return h("textarea", { ...common, rows: 2 }, value);
    if (choices.length) return select(choices, value, common);
    const limits = { min: parameter.minimum || null, max: parameter.maximum || null };
    const typed = INPUT_TYPES[parameter.type] ?? { type: "text" };
    const input = h("input", { ...common, ...typed, ...(typed.type === "number" ? limits : {}) });
    /** @type {HTMLInputElement} */ (input).value = value;
    return input;
  }

  /** What was typed for it; what was typed while it had another type or other choices counts no more. */
  value(parameter) {
    const value = this.values.get(keyOf(parameter)) ?? "";
    const choices = parameter.type === "list of text" ? [] : choicesOf(parameter);
    return choices.length && !choices.includes(value) ? "" : value;
  }

  fill(parameter, value) {
    byId(inputId(parameter.name)).value = value;
    this.keep(parameter, value);
  }

  keep(parameter, value) {
    this.values.set(keyOf(parameter), value);
    this.memory.keep({ arguments: Object.fromEntries(this.values) });
  }
}

const keyOf = ({ name, type }) => `${type} @${name}`;

function choicesOf({ type, allowed_values: allowed }) {
  return type === "boolean" ? ["true", "false"] : allowed;
}

function select(choices, value, common) {
  const option = (text, label = text) => h("option", { value: text, selected: text === value }, label);
  return h("select", common, option("", NOT_SENT), choices.map((choice) => option(choice)));
}

function inputId(name) {
  return `wb-argument-${name}`;
}

function lines(value) {
  return value.split("\n").map((line) => line.trim()).filter(Boolean);
}
