/** What a search found: the histogram, the rows under their heading, or why there is nothing. */

import { button, byId, counted, h, show } from "../shared/dom.js";
import { Histogram } from "./histogram.js";
import { RowList } from "./rows.js";
import { between, writeMoment, zoneName } from "./zone.js";

const HOUR = 3_600_000;
const COUNTED = new Set(["count", "count()", "count(*)"]);
const CHART = /(?:^|\s)(?:c|chart):(?!group_by)(\w+\((?:[\w.*]|"(?:[^"\\]|\\.)*")*\))/; // c:avg(m.latency)

export class Results {
  constructor(actions) {
    this.actions = actions;
    this.histogram = new Histogram(actions.lookAt);
    this.list = new RowList(actions);
    this.hasMore = false;
    this.isEmpty = false;
  }

  /** Show rows, the first ones or those that follow; what is returned was not there yet. */
  showRows(rows, { more }, isFirst) {
    if (isFirst) this.list.clear();
    const added = this.list.add(rows);
    this.hasMore = more;
    this.isEmpty = isFirst && !rows.length;
    byId("lx-more").hidden = !more;
    byId("lx-more").disabled = false;
    show(byId("lx-empty"));
    this.head();
    return added;
  }

  /** Show rows that came by themselves among those that are there; what is returned was not there yet. */
  showLive(rows) {
    const added = this.list.insert(rows);
    if (added.length) {
      this.isEmpty = false;
      show(byId("lx-empty"));
      this.head();
    }
    return added;
  }

  showHistogram(answer, lql) {
    const chart = CHART.exec(lql)?.[1] ?? answer.aggregate;
    // count(path) counts no rows.
    this.histogram.show(answer, COUNTED.has(chart) ? "count" : chart);
    this.head();
  }

  /** Say that there is nothing, and where there are rows instead. */
  showEmpty({ start, end }, source, newest) {
    const moment = newest === null ? null : new Date(newest);
    const isElsewhere = moment !== null && (moment < start || moment >= end);
    show(
      byId("lx-empty"),
      h("p", {}, `No rows match from ${between(start, end)}. Take a wider range or fewer filters.`),
      isElsewhere && h("p", {}, `The newest row of ${source} is from ${writeMoment(moment)} ${zoneName()}. `, this.toNewest(moment)),
    );
  }

  showSeverities({ counts }) {
    this.histogram.showSeverities(counts);
  }

  /** Show the same by another clock. */
  redraw() {
    this.list.redraw();
    this.histogram.draw();
  }

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
    const sort = this.actions.sort();
    const isSorted = sort !== null && this.list.grid?.names.includes(sort.name);
    const order = isSorted ? `sorted by ${sort.name.replace(/^metadata\./, "m.")}` : "newest first";
    show(byId("lx-rows-heading"), shown ? `${count}, ${order}` : "No rows");
  }

  toNewest(moment) {
    const end = new Date(Math.floor(moment.getTime() / 1000) * 1000 + 1000);
    const go = () => this.actions.lookAt({ start: new Date(end.getTime() - HOUR), end });
    return button("lx-link", go, "Show the hour before it");
  }
}
