/** The SQL editor: Ace where it has loaded, else the plain text field that is sent with the form in any case. */

import { offsetOf, select } from "../shared/failure.js";
import { chooseByHand, completers, restartBehindQualifiers } from "./completion.js";

const THEMES = { light: "ace/theme/tomorrow", dark: "ace/theme/tomorrow_night" };

export class SqlEditor {
  constructor(field) {
    this.field = field;
    this.ace = document.querySelector(".django-ace-widget")?.editor ?? null;
    this.markers = [];
    this.sources = () => [];
    if (this.ace) this.dress();
  }

  get text() {
    return this.ace ? this.ace.getValue() : this.field.value;
  }

  onChange(changed) {
    if (this.ace) this.ace.session.on("change", changed);
    else this.field.addEventListener("input", changed);
  }

  /** Call on Ctrl-Enter and Cmd-Enter. */
  onRun(run) {
    this.ace?.commands.addCommand({ name: "run", bindKey: { win: "Ctrl-Enter", mac: "Command-Enter" }, exec: run });
  }

  /** Replace the text; one undo brings the old one back. */
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

  complete(sources, parameters) {
    this.sources = sources;
    if (this.ace) this.ace.completers = completers(sources, parameters);
  }

  /** Show problems at their lines. */
  mark(problems) {
    if (!this.ace) return;
    const session = this.ace.session;
    for (const marker of this.markers.splice(0)) session.removeMarker(marker);
    const placed = problems.filter((problem) => problem.line !== null);
    session.setAnnotations(placed.map((problem) => ({ ...this.place(problem), text: problem.message, type: problem.severity })));
    const { Range } = window.ace.require("ace/range");
    for (const problem of placed) {
      const { row, column } = this.place(problem);
      const rest = session.getLine(row).slice(column);
      const width = Math.max(1, (/^(?:@?\w+|\S)/.exec(rest) ?? [""])[0].length);
      const range = new Range(row, column, row, column + width);
      this.markers.push(session.addMarker(range, `wb-mark-${problem.severity}`, "text"));
    }
  }

  /** Go to a place; lines and columns count from 1. */
  goTo(line, column) {
    if (this.ace) {
      const place = this.place({ line, column });
      this.ace.gotoLine(line, place.column, false);
      this.ace.focus();
    } else {
      select(this.field, offsetOf(this.field.value, line, column), 0);
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
  const field = document.querySelector(".ace_autocomplete textarea");
  if (!field) return;
  field.tabIndex = -1;
  observer.disconnect();
}
