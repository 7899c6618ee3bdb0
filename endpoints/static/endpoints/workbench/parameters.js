/** The parameters that the SQL uses: rows that declare them, and the strip below the editor that leads there. */

import { button, byId, h, show } from "../shared/dom.js";

const STARTER_LIMIT = 100;

/**
 * The rows that declare parameters, kept in step with the SQL: a parameter that was just typed gets a row, and the row
 * goes again with it as long as nobody has touched it.
 */
export class ParameterRows {
  constructor(draft) {
    this.draft = draft;
    this.known = draft.sql().trim() ? null : new Set(); // what the SQL used last; null before its first check
    this.made = new WeakMap(); // the rows made here and not touched since, with the name each declares
    this.draft.form.addEventListener("input", (event) => this.touch(event));
    keepTypedValues();
  }

  /** Follow what the SQL uses; whether a row or its type has changed, so that a new check comes. */
  follow(used) {
    const names = new Set(used.map(({ name }) => name));
    const before = this.known;
    this.known = names;
    if (before === null) return false;
    let changed = false;
    for (const row of this.draft.rows().reverse()) {
      if (!this.made.has(row) || names.has(this.made.get(row))) continue;
      row.querySelector(".delete-template")?.click();
      changed = true;
    }
    for (const { name, guessed_type: type } of used) {
      const own = this.draft.rowOf(name);
      if (own) {
        // While its line was being typed, the SQL may have told another type.
        changed = (this.made.has(own) && this.draft.retype(own, type)) || changed;
        continue;
      }
      const row = before.has(name) ? null : this.draft.addRow(name, type);
      if (row) this.made.set(row, name);
      changed ||= row !== null;
    }
    return changed;
  }

  touch(event) {
    // Only what a person types is trusted; the rows are filled in by events of our own.
    const row = event.isTrusted && event.target.closest?.(".form-group");
    if (row) this.made.delete(row);
  }
}

/** Each parameter in one line is a way to its row; who lacks a row gets one by a click. */
export class ParameterStrip {
  constructor(draft) {
    this.draft = draft;
    this.place = byId("wb-strip");
  }

  show(used, report) {
    const undeclared = report.parameters.filter(({ name, declared }) => !declared && !this.draft.has(name));
    const names = new Set(undeclared.map(({ name }) => name));
    show(
      this.place,
      h("span", { class: "wb-hint" }, used.length ? "Parameters" : "No parameters: write @name where a caller's argument goes."),
      used.map((one) => this.chip(one, names.has(one.name))),
      undeclared.length > 1 ? this.declareAll(undeclared) : null,
    );
    this.place.hidden = false;
  }

  chip(parameter, isUndeclared) {
    const go = () => {
      if (!this.draft.goTo(parameter.name)) this.draft.declare(parameter.name, null);
    };
    const note = isUndeclared ? "not declared" : `${parameter.type}${parameter.required ? ", required" : ""}`;
    const css = isUndeclared ? "wb-chip wb-chip-open" : "wb-chip";
    return button(css, go, h("code", {}, `@${parameter.name}`), h("span", {}, ` ${note}`));
  }

  declareAll(undeclared) {
    const declare = () => {
      for (const { name, guessed_type: type } of undeclared) this.draft.addRow(name, type);
    };
    return button("wb-link", declare, `Declare all ${undeclared.length}`);
  }
}

/** Where nothing is written yet, the strip offers for each log source a query to begin with. */
export function showStarters(sources, editor) {
  const place = byId("wb-strip");
  place.hidden = !sources.length;
  const chip = (source) => {
    const onclick = () => {
      editor.replace(starter(source));
      editor.goTo(1, 1);
    };
    return h("button", { type: "button", class: "wb-chip", title: source.holds, onclick }, h("code", {}, source.name));
  };
  show(place, h("span", { class: "wb-hint" }, "Begin with the rows of"), sources.map(chip));
}

/** The newest rows of one project since a moment. */
function starter({ table, columns }) {
  const named = ["timestamp", "id", "event_message"].filter((name) => columns.some((column) => column.name === name));
  const conditions = ["t.timestamp > @start"];
  if (columns.some(({ name }) => name === "project")) conditions.unshift("t.project = @project");
  return [
    `SELECT ${named.map((name) => `t.${name}`).join(", ")}`,
    `FROM ${table} AS t`,
    `WHERE ${conditions.join("\n  AND ")}`,
    `ORDER BY t.timestamp DESC${named.includes("id") ? ", t.id DESC" : ""}`,
    `LIMIT ${STARTER_LIMIT}`,
  ].join("\n");
}

/**
 * unfold numbers the rows behind a removed one anew by writing their HTML again, in which typed values are not: here
 * they are put into it before. It then tells django-ace, whose listener reads an argument that browsers no longer give.
 */
function keepTypedValues() {
  const freeze = (event) => {
    const rows = event.target.closest?.(".delete-template")?.closest(".formset")?.querySelectorAll("input, select, textarea");
    for (const field of rows ?? []) freezeValue(field);
  };
  document.addEventListener("click", freeze, { capture: true });
  window.addEventListener("formset:removed", (event) => event.stopPropagation(), { capture: true });
}

function freezeValue(field) {
  if (field instanceof HTMLTextAreaElement) field.defaultValue = field.value;
  else if (field instanceof HTMLSelectElement) for (const option of field.options) option.defaultSelected = option.selected;
  else if (field.type === "checkbox") field.defaultChecked = field.checked;
  else field.defaultValue = field.value;
}
