/** The LQL field with its completions, by the pattern of the ARIA authoring practices for an editable combobox. */

import { byId, h, show } from "../shared/dom.js";
import { complete } from "./offers.js";

export class LqlBar {
  constructor(facts) {
    this.facts = facts;
    this.field = byId("lx-lql");
    this.list = byId("lx-offers");
    this.offers = [];
    this.from = 0;
    this.active = -1;
    this.field.addEventListener("input", () => this.open());
    this.field.addEventListener("keydown", (event) => this.key(event));
    this.field.addEventListener("paste", (event) => this.paste(event));
    this.field.addEventListener("blur", () => this.close());
    // Before the field loses the focus, which would close the list.
    this.list.addEventListener("pointerdown", (event) => this.click(event));
  }

  /** A field of one line would join what lines keep apart. */
  paste(event) {
    const text = event.clipboardData?.getData("text/plain") ?? "";
    if (!/[\r\n]/.test(text)) return;
    event.preventDefault();
    this.field.setRangeText(inOneLine(text), this.field.selectionStart ?? 0, this.field.selectionEnd ?? 0, "end");
  }

  get isOpen() {
    return !this.list.hidden;
  }

  open() {
    const before = this.field.value.slice(0, this.field.selectionStart ?? undefined);
    const { from, offers } = complete(before, this.facts());
    this.from = from;
    this.offers = offers;
    show(this.list, offers.map((offer, index) => this.option(offer, index)));
    this.list.hidden = offers.length === 0;
    this.field.setAttribute("aria-expanded", String(this.isOpen));
    this.activate(-1);
  }

  close() {
    this.list.hidden = true;
    this.field.setAttribute("aria-expanded", "false");
    this.activate(-1);
  }

  option({ text, note }, index) {
    return h(
      "li",
      { class: "lx-offer", role: "option", id: `lx-offer-${index}`, "aria-selected": "false", "data-index": index },
      h("span", { class: "lx-offer-text" }, text),
      h("span", { class: "lx-offer-note" }, note),
    );
  }

  key(event) {
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      this.open();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!this.isOpen) this.open();
      this.step(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Escape" && this.isOpen) {
      event.preventDefault();
      this.close();
    } else if ((event.key === "Enter" || event.key === "Tab") && this.isOpen && this.active >= 0) {
      event.preventDefault();
      this.take(this.offers[this.active]);
    } else if (event.key === "Enter") this.close();
  }

  step(by) {
    const count = this.offers.length;
    if (count) this.activate(this.active < 0 ? (by > 0 ? 0 : count - 1) : (this.active + by + count) % count);
  }

  activate(index) {
    this.active = index;
    [...this.list.children].forEach((option, at) => option.setAttribute("aria-selected", String(at === index)));
    if (index < 0) this.field.removeAttribute("aria-activedescendant");
    else {
      this.field.setAttribute("aria-activedescendant", `lx-offer-${index}`);
      this.list.children[index].scrollIntoView({ block: "nearest" });
    }
  }

  click(event) {
    event.preventDefault();
    const option = event.target.closest("[data-index]");
    if (option) this.take(this.offers[Number(option.getAttribute("data-index"))]);
  }

  take({ insert, goesOn }) {
    const cursor = this.field.selectionStart ?? this.field.value.length;
    this.field.setRangeText(insert, this.from, cursor, "end");
    this.field.focus();
    if (goesOn) this.open();
    else this.close();
  }
}

/** The same with blanks for line breaks. */
export function inOneLine(lql) {
  return lql.replace(/[\r\n]+/g, " ");
}
