/** The most frequent values of a field, with a button each to filter for it or to filter it out. */

import { button, byId, counted, h, rounded, show, table } from "../shared/dom.js";
import { readPath, writePath } from "./paths.js";

export class TopValues {
  /** `ask` gets the path of a field and what to do with the answer; `addFilter` as the rows have it. */
  constructor({ ask, addFilter }) {
    this.ask = ask;
    this.addFilter = addFilter;
    this.path = "";
    byId("lx-values-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.open(byId("lx-values-field").value);
    });
    byId("lx-values-close").addEventListener("click", () => this.close());
  }

  /** Offer these fields of a source. */
  offer({ columns, paths }) {
    const names = columns.map(({ name }) => name).filter((name) => !["metadata", "timestamp"].includes(name));
    const inside = paths.filter(({ type }) => type !== "object").map(({ path }) => `m.${writePath(path.split("."))}`);
    show(byId("lx-values-fields"), [...names, ...inside].map((value) => h("option", { value })));
  }

  /** Count the values of a field: m.level, metadata.level or a column. */
  open(written) {
    const path = written.trim().replace(/^m\./, "metadata.");
    if (!path) return;
    this.path = path;
    byId("lx-values-field").value = shortened(path);
    byId("lx-values").hidden = false;
    show(byId("lx-values-heading"), `Top values of ${shortened(path)}`);
    this.again();
  }

  /** Count again, for another search. */
  again() {
    if (!this.path) return;
    show(byId("lx-values-told"), "Counting …");
    this.ask(this.path, (answer) => this.shown(answer));
  }

  close() {
    this.path = "";
    byId("lx-values").hidden = true;
    byId("lx-values-field").focus();
  }

  failed() {
    show(byId("lx-values-told"), "Not counted.");
    show(byId("lx-values-table"));
  }

  shown({ values, counted: all, different, is_part: isPart, counted_rows: most }) {
    const rest = different > values.length ? `, the ${values.length} most frequent of ${different.toLocaleString("en")} values` : "";
    const part = isPart ? ` of the newest ${most.toLocaleString("en")} rows` : "";
    show(byId("lx-values-told"), all ? `${counted(all, "value")} counted${part}${rest}.` : "No rows match.");
    const lines = values.map((value) => this.line(value, all));
    show(byId("lx-values-table"), values.length > 0 && table("lx-table lx-values-lines", ["Value", "Rows", "Share", "Filter"], lines));
  }

  line({ kind, text, rows }, all) {
    const share = (100 * rows) / all;
    const told = share >= 99.95 && share < 100 ? "> 99.9" : rounded(share, 1); // only all is 100 %
    const filter = (sign, label, negated) => {
      const go = () => this.addFilter(readPath(this.path), { kind, text }, negated);
      const one = button("lx-mini", go, sign);
      one.title = label;
      one.setAttribute("aria-label", `${label}: ${shortened(this.path)} ${text}`);
      return one;
    };
    const meter = h("span", { class: "lx-share-bar", "aria-hidden": "true" });
    meter.style.width = `${share}%`;
    return [
      h("span", { class: `lx-scalar lx-${kind}` }, kind === "null" ? "missing or null" : text === "" ? '""' : text),
      rows.toLocaleString("en"),
      h("span", { class: "lx-share" }, h("span", { class: "lx-share-room" }, meter), `${told} %`),
      h("span", { class: "lx-minis" }, filter("+", "Filter for", false), filter("−", "Filter out", true)),
    ];
  }
}

function shortened(path) {
  return path.replace(/^metadata\./, "m.");
}
