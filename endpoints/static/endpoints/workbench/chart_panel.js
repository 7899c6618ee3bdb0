/** The result as a chart: what to draw is proposed and can be changed; the same numbers follow as text. */

import { draw, kindOf, suggest } from "./chart_data.js";
import { wholeMoment } from "./chart_axis.js";
import { ChartCanvas } from "./chart_canvas.js";
import { counted, h, show } from "./dom.js";

const SHOWN_POINTS = 200;

/** @type {ChartCanvas | null} */
let canvas = null;

/**
 * @param {HTMLElement} panel
 * @param {{name: string, type: string}[]} columns
 * @param {Record<string, any>[]} rows
 */
export function showChart(panel, columns, rows) {
  canvas?.remove();
  canvas = null;
  const choice = suggest(columns, rows);
  if (choice === null) {
    const reason = rows.length ? "A chart needs a time, or a category, or two columns of numbers." : "No rows, so nothing to draw.";
    show(panel, h("p", { class: "wb-hint" }, reason));
    return;
  }
  const own = new ChartCanvas();
  canvas = own;
  const caption = h("figcaption", { class: "wb-hint" });
  const numbers = h("div", {});
  const redraw = () => {
    const drawing = draw(choice, columns, rows);
    const text = describe(choice, drawing);
    own.draw(choice, drawing, text);
    show(caption, text);
    show(numbers, pointsTable(choice, drawing));
  };
  const controls = chartControls(choice, columns, rows, redraw);
  const table = h("details", { class: "wb-details" }, h("summary", {}, "The same as numbers"), numbers);
  show(panel, controls, h("figure", { class: "wb-figure" }, h("div", { class: "wb-canvas" }, own.element), caption), table);
  redraw();
}

function chartControls(choice, columns, rows, redraw) {
  const named = (...kinds) => columns.filter((column) => kinds.includes(kindOf(column, rows) ?? "")).map(({ name }) => name);
  const numbers = named("number");
  const picks = [
    pick("Chart", [["line", "Line"], ["bar", "Bars"]], choice.shape, (value) => (choice.shape = value)),
    pick("Across", same(named("time", "category", "number")), choice.across, (value) => (choice.across = value)),
    pick("Split by", [["", "nothing"], ...same(named("category"))], choice.split, (value) => (choice.split = value)),
  ];
  const boxes = numbers.map((name) =>
    h(
      "label",
      { class: "wb-check-label" },
      h("input", { type: "checkbox", class: "wb-checkbox", checked: choice.values.includes(name), onchange: (event) => toggle(name, event.target.checked) }),
      ` ${name}`,
    ),
  );
  const toggle = (name, wanted) => {
    choice.values = numbers.filter((one) => (one === name ? wanted : choice.values.includes(one)));
    redraw();
  };
  for (const { select, changed } of picks) {
    select.addEventListener("change", () => {
      changed(select.value);
      redraw();
    });
  }
  const values = boxes.length ? h("fieldset", { class: "wb-values" }, h("legend", { class: "wb-hint" }, "Values (none: the number of rows)"), boxes) : null;
  return h("div", { class: "wb-chart-controls" }, picks.map(({ label }) => label), values);
}

function pick(text, options, chosen, changed) {
  const select = /** @type {HTMLSelectElement} */ (
    h("select", { class: "wb-input" }, options.map(([value, label]) => h("option", { value, selected: value === chosen }, label)))
  );
  return { select, changed, label: h("label", { class: "wb-pick" }, h("span", { class: "wb-hint" }, text), select) };
}

function same(names) {
  return names.map((name) => [name, name]);
}

function describe({ shape, across, values, split }, { series, left, isTime }) {
  const points = series.flatMap((one) => one.points);
  const what = split ? `${values[0] ?? "rows"} by ${split}` : values.join(", ") || "rows";
  const title = `${shape === "line" ? "Line chart" : "Bar chart"} of ${what} across ${across}`;
  if (!points.length) return `${title}: no value to draw.`;
  const numbers = points.map(({ value }) => value);
  const [least, most] = [numbers.reduce((a, b) => Math.min(a, b)), numbers.reduce((a, b) => Math.max(a, b))];
  const extent = isTime ? `, ${wholeMoment(Number(points[0].across))} to ${wholeMoment(Number(points.at(-1)?.across))}` : "";
  return `${title}: ${counted(points.length, "value")} from ${least.toLocaleString("en")} to ${most.toLocaleString("en")}${extent}.${left ? ` Not drawn: ${left}.` : ""}`;
}

function pointsTable({ across }, { series, isTime }) {
  const all = series.flatMap(({ name, points }) => points.map((point) => ({ name, ...point })));
  const place = (point) => (isTime ? wholeMoment(point.across) : String(point.across));
  const line = (point) => h("tr", {}, h("td", {}, place(point)), h("td", {}, point.name), h("td", { class: "wb-number" }, point.value.toLocaleString("en")));
  const head = h("tr", {}, [across, "series", "value"].map((text) => h("th", { scope: "col" }, text)));
  const table = h("table", { class: "wb-table" }, h("thead", {}, head), h("tbody", {}, all.slice(0, SHOWN_POINTS).map(line)));
  const rest = all.length - SHOWN_POINTS;
  return h("div", { class: "wb-scroll" }, table, rest > 0 ? h("p", { class: "wb-hint" }, `and ${counted(rest, "more value")}`) : null);
}
