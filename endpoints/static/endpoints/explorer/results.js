/** What a search found: the histogram, the rows under their heading, or why there is nothing. */

import { byId, counted, h, show } from "../workbench/dom.js";
import { Histogram } from "./histogram.js";
import { writeMoment } from "./range.js";
import { RowList } from "./row_list.js";

/** @typedef {import("./range.js").Range} Range */

const HOUR = 3_600_000;
const COUNTED = new Set(["count", "count()", "count(*)"]);
const CHART = /(?:^|\s)(?:c|chart):(?!group_by)(\w+\([\w.*]*\))/; // c:avg(m.latency)

export class Results {
  /**
   * @param {{addFilter: import("./row_json.js").AddFilter, around: (moment: Date) => void,
   *   lookAt: (range: Range) => void}} actions
   */
  constructor(actions) {
    this.actions = actions;
    this.histogram = new Histogram(actions.lookAt);
    this.list = new RowList(actions);
    this.hasMore = false;
    this.isEmpty = false;
  }

  /**
   * @param {Record<string, any>[]} rows
   * @param {{more: boolean}} answer
   * @param {boolean} isFirst else they follow those that are shown
   * @returns {Record<string, any>[]} those that were not there yet
   */
  showRows(rows, { more }, isFirst) {
    if (isFirst) this.list.clear();
    const added = this.list.add(rows);
    const isStuck = more && !added.length;
    this.hasMore = more;
    this.isEmpty = isFirst && !rows.length;
    byId("lx-more").hidden = !more || isStuck;
    byId("lx-more").disabled = false;
    show(byId("lx-empty"), isStuck && "Too many rows have the same time to show more: add a filter.");
    this.head();
    return added;
  }

  /**
   * @param {Record<string, any>} answer
   * @param {string} lql it answers to
   */
  showHistogram(answer, lql) {
    const chart = CHART.exec(lql)?.[1] ?? answer.aggregate;
    // count(path) counts no rows.
    this.histogram.show(answer, COUNTED.has(chart) ? "count" : chart);
    this.head();
  }

  /**
   * Say where there are rows instead.
   * @param {Range} range
   * @param {string} source
   * @param {string | null} newest of its rows
   */
  showEmpty({ start, end }, source, newest) {
    const moment = newest === null ? null : new Date(newest);
    const isElsewhere = moment !== null && (moment < start || moment >= end);
    show(
      byId("lx-empty"),
      h("p", {}, `No rows match between ${writeMoment(start)} and ${writeMoment(end)} UTC. Take a wider range or fewer filters.`),
      isElsewhere && h("p", {}, `The newest row of ${source} is from ${writeMoment(moment)} UTC. `, this.toNewest(moment)),
    );
  }

  /** @param {"rows" | "more" | "histogram"} part what there is no answer to */
  failed(part) {
    if (part === "histogram") this.histogram.hide();
    if (part === "more") this.stopped();
    if (part !== "rows") return;
    this.list.clear();
    this.isEmpty = false;
    byId("lx-more").hidden = true;
    show(byId("lx-rows-heading"), "Rows");
    show(byId("lx-empty"));
  }

  /** A search was cancelled: what was there stays. */
  stopped() {
    byId("lx-more").disabled = false;
  }

  head() {
    const shown = this.list.rows.length;
    const total = this.histogram.total;
    const isPart = this.hasMore && total !== null && total >= shown;
    const count = isPart ? `${shown.toLocaleString("en")} of ${counted(total, "row")}` : counted(shown, "row");
    show(byId("lx-rows-heading"), shown ? `${count}, newest first` : "No rows");
  }

  toNewest(moment) {
    const end = new Date(Math.floor(moment.getTime() / 1000) * 1000 + 1000);
    const go = () => this.actions.lookAt({ start: new Date(end.getTime() - HOUR), end });
    return h("button", { type: "button", class: "lx-link", onclick: go }, "Show the hour before it");
  }
}
