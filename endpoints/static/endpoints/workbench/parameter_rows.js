/**
 * The rows that declare parameters, kept in step with the SQL: a parameter that was just typed gets a row, and the row
 * goes again with it as long as nobody has touched it.
 */

export class ParameterRows {
  /** @param {import("./draft.js").DraftForm} draft */
  constructor(draft) {
    this.draft = draft;
    /** @type {Set<string> | null} what the SQL used last; null before it is known what it used when the page came */
    this.known = draft.sql().trim() ? null : new Set();
    /** @type {WeakMap<HTMLElement, string>} rows made here and not touched since, with the name each declares */
    this.made = new WeakMap();
    this.draft.form.addEventListener("input", (event) => this.touch(event));
    keepTypedValues();
  }

  /** @param {import("./checker.js").Report["parameters"]} used what the SQL uses */
  follow(used) {
    const names = new Set(used.map(({ name }) => name));
    const before = this.known;
    this.known = names;
    if (before === null) return;
    for (const row of this.draft.rows().reverse()) {
      if (this.made.has(row) && !names.has(this.made.get(row) ?? "")) this.remove(row);
    }
    for (const { name, guessed_type: type } of used) {
      if (before.has(name) || this.draft.has(name)) continue;
      const row = this.draft.addRow(name, type);
      if (row) this.made.set(row, name);
    }
  }

  /** @param {HTMLElement} row */
  remove(row) {
    const button = /** @type {HTMLElement | null} */ (row.querySelector(".delete-template"));
    button?.click();
  }

  touch(event) {
    // Only what a person types is trusted; the rows are filled in by events of our own.
    const row = event.isTrusted && event.target.closest?.(".form-group");
    if (row) this.made.delete(row);
  }
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
