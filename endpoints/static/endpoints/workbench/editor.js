/** The SQL editor: Ace where it has loaded, else the plain text field that is sent with the form in any case. */

import { chooseByHand, completers, restartBehindQualifiers } from "./completion.js";

/** @typedef {{severity: "error" | "warning", message: string, line: number | null, column: number | null}} Problem */

const THEMES = { light: "ace/theme/tomorrow", dark: "ace/theme/tomorrow_night" };

export class SqlEditor {
  /** @param {HTMLTextAreaElement} field */
  constructor(field) {
    this.field = field;
    /** @type {any} */
    this.ace = /** @type {any} */ (document.querySelector(".django-ace-widget"))?.editor ?? null;
    this.markers = [];
    /** @type {() => any[]} */
    this.sources = () => [];
    if (this.ace) this.dress();
  }

  /** @returns {string} */
  get text() {
    return this.ace ? this.ace.getValue() : this.field.value;
  }

  /** @param {() => void} changed */
  onChange(changed) {
    if (this.ace) this.ace.session.on("change", changed);
    else this.field.addEventListener("input", changed);
  }

  /** @param {() => void} run called on Ctrl-Enter and Cmd-Enter */
  onRun(run) {
    this.ace?.commands.addCommand({ name: "run", bindKey: { win: "Ctrl-Enter", mac: "Command-Enter" }, exec: run });
  }

  /**
   * Replace the text; one undo brings the old one back.
   * @param {string} text
   */
  replace(text) {
    if (this.ace) {
      const place = this.ace.getCursorPosition();
      this.ace.session.doc.setValue(text);
      this.ace.moveCursorToPosition(place);
      this.ace.clearSelection();
    } else {
      this.field.value = text;
      this.field.dispatchEvent(new Event("input", { bubbles: true }));
    }
  }

  /**
   * @param {() => any[]} sources of the catalogue
   * @param {() => {name: string, type: string}[]} parameters
   */
  complete(sources, parameters) {
    this.sources = sources;
    if (this.ace) this.ace.completers = completers(sources, parameters);
  }

  /** @param {Problem[]} problems shown at their lines */
  mark(problems) {
    if (!this.ace) return;
    const session = this.ace.session;
    for (const marker of this.markers.splice(0)) session.removeMarker(marker);
    const placed = problems.filter((problem) => problem.line !== null);
    session.setAnnotations(placed.map((problem) => ({ ...this.place(problem), text: problem.message, type: problem.severity })));
    const { Range } = /** @type {any} */ (window).ace.require("ace/range");
    for (const problem of placed) {
      const { row, column } = this.place(problem);
      const rest = session.getLine(row).slice(column);
      const width = Math.max(1, (/^(?:@?\w+|\S)/.exec(rest) ?? [""])[0].length);
      const range = new Range(row, column, row, column + width);
      this.markers.push(session.addMarker(range, `wb-mark-${problem.severity}`, "text"));
    }
  }

  /**
   * @param {number} line from 1
   * @param {number | null} column from 1
   */
  goTo(line, column) {
    if (this.ace) {
      const place = this.place({ line, column });
      this.ace.gotoLine(line, place.column, false);
      this.ace.focus();
    } else {
      const before = this.field.value.split("\n").slice(0, line - 1).join("\n");
      const offset = before.length + (line > 1 ? 1 : 0) + (column ?? 1) - 1;
      this.field.focus();
      this.field.setSelectionRange(offset, offset);
    }
    this.field.closest(".wb-editor")?.scrollIntoView({ block: "nearest" });
  }

  /** Ace counts from 0 and in UTF-16 units, the service from 1 and in characters. */
  place({ line, column }) {
    const row = Math.min((line ?? 1) - 1, this.ace.session.getLength() - 1);
    const characters = [...this.ace.session.getLine(row)];
    return { row, column: characters.slice(0, (column ?? 1) - 1).join("").length };
  }

  dress() {
    this.ace.setOptions({ fontSize: 13, enableKeyboardAccessibility: true, showPrintMargin: false, scrollPastEnd: 0.1 });
    this.ace.setOption("liveAutocompletionThreshold", 2); // one letter is mostly an alias
    this.ace.textInput.setAriaLabel?.("SQL");
    this.ace.renderer.textarea?.setAttribute("aria-label", "SQL");
    this.ace.session.setUseWrapMode(window.matchMedia("(max-width: 640px)").matches);
    chooseByHand(this.ace);
    restartBehindQualifiers(this.ace, () => this.sources());
    const theme = () => {
      const dark = document.documentElement.classList.contains("dark");
      this.ace.setTheme(dark ? THEMES.dark : THEMES.light);
    };
    new MutationObserver(theme).observe(document.documentElement, { attributeFilter: ["class"] });
    theme();
    new MutationObserver(hideFieldOfOffers).observe(document.body, { childList: true });
    new ResizeObserver(() => this.ace.resize()).observe(this.ace.container);
  }
}

/** The list of offers is an editor of its own, made when first needed: its unseen field is none for the tab key. */
function hideFieldOfOffers(_changes, observer) {
  const field = /** @type {HTMLElement | null} */ (document.querySelector(".ace_autocomplete textarea"));
  if (!field) return;
  field.tabIndex = -1;
  observer.disconnect();
}
