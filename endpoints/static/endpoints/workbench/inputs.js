/** What a trial is given: an argument for each parameter that the SQL uses, and names for a consumer's query. */

import { button, byId, h, show } from "../shared/dom.js";
import { filledLines } from "./draft.js";

const NOT_SENT = "— not sent —";
const INPUT_TYPES = {
  integer: { type: "number", step: "1", inputmode: "numeric" },
  number: { type: "number", step: "any", inputmode: "decimal" },
  timestamp: { type: "datetime-local", step: "1" },
  date: { type: "date" },
};
const MOMENTS = [
  ["now", 0],
  ["−1 h", 3_600_000],
  ["−1 d", 86_400_000],
  ["−7 d", 7 * 86_400_000],
];
const HINTS = { timestamp: "UTC", "list of text": "one a line", uuid: "UUID" };

/** One typed input for each parameter; what was typed stays while the declarations change. */
export class ArgumentInputs {
  constructor(memory) {
    this.place = byId("wb-arguments");
    this.memory = memory;
    this.values = new Map(Object.entries(memory.kept.arguments)); // by type and name
    this.parameters = [];
  }

  /** Show inputs for these; those that have not changed stay as they are, the focus too. */
  show(parameters) {
    if (JSON.stringify(parameters) === JSON.stringify(this.parameters)) return;
    this.parameters = parameters;
    const focused = document.activeElement?.id;
    show(this.place, parameters.map((parameter) => this.row(parameter)));
    if (focused?.startsWith("wb-argument-")) document.getElementById(focused)?.focus();
  }

  /** What is sent: nothing for an input that was left empty. */
  read() {
    const sent = {};
    for (const parameter of this.parameters) {
      const { name, type } = parameter;
      const value = this.value(parameter);
      if (value.trim() === "") continue;
      sent[name] = type === "list of text" ? filledLines(value) : type === "timestamp" ? inUtc(value) : value;
    }
    return sent;
  }

  /** The same as typed, by name. */
  typed() {
    return Object.fromEntries(this.parameters.map((parameter) => [parameter.name, this.value(parameter)]));
  }

  /** Say at its input what is wrong with an argument. */
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
      parameter.type === "timestamp" && !parameter.allowed_values.length && this.moments(parameter),
      h("p", { class: "wb-hint", id: `${id}-hint` }, hints.filter(Boolean).join(" · ")),
      h("p", { class: "wb-fault", id: `${id}-fault`, hidden: true }),
    );
  }

  input(parameter, id) {
    const value = this.value(parameter);
    const keep = (event) => this.keep(parameter, event.target.value);
    const described = { "aria-describedby": `${id}-hint ${id}-fault` };
    const common = { id, form: "wb-form", class: "wb-input", ...described, oninput: keep, onchange: keep };
    const choices = choicesOf(parameter);
    if (parameter.type === "list of text") return h("textarea", { ...common, rows: 2 }, value);
    if (choices.length) return select(choices, value, common);
    const limits = { min: parameter.minimum || null, max: parameter.maximum || null };
    const typed = INPUT_TYPES[parameter.type] ?? { type: "text" };
    const input = h("input", { ...common, ...typed, ...(typed.type === "number" ? limits : {}) });
    input.value = value;
    return input;
  }

  /** What was typed for it; what was typed while it had another type or other choices counts no more. */
  value(parameter) {
    const value = this.values.get(keyOf(parameter)) ?? this.memory.shared?.[parameter.name] ?? "";
    const choices = parameter.type === "list of text" ? [] : choicesOf(parameter);
    return choices.length && !choices.includes(value) ? "" : value;
  }

  /** Moments that are asked for all the time, counted back from the click. */
  moments(parameter) {
    const moment = ([label, milliseconds]) => {
      const onclick = () => {
        const input = byId(inputId(parameter.name));
        input.value = new Date(Date.now() - milliseconds).toISOString().slice(0, 19);
        input.dispatchEvent(new Event("input", { bubbles: true }));
      };
      return h("button", { type: "button", class: "wb-link", "aria-label": `@${parameter.name}: ${label}`, onclick }, label);
    };
    return h("div", { class: "wb-moments" }, MOMENTS.map(moment));
  }

  keep(parameter, value) {
    this.values.set(keyOf(parameter), value);
    this.memory.keep({ arguments: Object.fromEntries(this.values) });
  }
}

/** The tables of the sandbox with their columns, beside a consumer's query: a click puts a name into it. */
export class TableList {
  constructor() {
    this.place = byId("wb-tables");
    this.isOpen = false;
    this.tables = [];
    this.sandboxing = false;
  }

  /** Whether a sandbox query is being written. */
  open(isOpen) {
    this.isOpen = isOpen;
    this.draw();
  }

  /** `sandboxing` is whether the draft lets consumers write queries. */
  show(tables, sandboxing) {
    if (tables.length || !sandboxing) this.tables = tables; // while the SQL has a fault the last ones still help
    this.sandboxing = sandboxing;
    this.draw();
  }

  draw() {
    this.place.hidden = !this.isOpen;
    if (!this.isOpen) return;
    if (!this.sandboxing) show(this.place, this.switchOn());
    else if (!this.tables.length) show(this.place, h("p", { class: "wb-hint" }, "The query has no CTE yet: begin it with WITH."));
    else show(this.place, this.tables.map((table) => this.table(table)));
  }

  switchOn() {
    const remedy = button("wb-link", () => document.getElementById("id_sandboxing")?.click(), "Switch it on");
    return h("p", { class: "wb-hint" }, "Sandboxing is off, so consumers may send no queries of their own. Switched on, these can read every row of every CTE. ", remedy);
  }

  table({ name, columns }) {
    const column = (one) => h("li", {}, this.name(one.name), h("span", { class: "wb-hint" }, ` ${one.type}`));
    return h(
      "details",
      { class: "wb-table-item", open: this.tables.length === 1 },
      h("summary", {}, h("code", {}, name), h("span", { class: "wb-hint" }, ` ${columns.length} columns`)),
      h("p", {}, this.name(name, "Insert the table's name")),
      h("ul", {}, columns.map(column)),
    );
  }

  name(text, label = text) {
    const insert = () => {
      const field = byId(byId("wb-panel-lql").hidden ? "wb-sandbox-sql" : "wb-sandbox-lql");
      field.setRangeText(text, field.selectionStart, field.selectionEnd, "end");
      field.focus();
    };
    return button("wb-link wb-code", insert, label);
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

/** The input has no time zone, here it means UTC; seconds are left out of its value where they are 0. */
function inUtc(value) {
  return value.length === "2026-01-01T00:00".length ? `${value}:00Z` : `${value}Z`;
}
