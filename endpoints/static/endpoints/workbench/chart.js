/** The result as a chart: what to draw is proposed and can be changed; the same numbers follow as text. */

import { counted, h, show, table } from "../shared/dom.js";
import { extremes } from "../shared/exact_json.js";
import { between, timeTicks, writeMoment } from "../shared/time_axis.js";
import { draw, kindOf, suggest } from "./chart_data.js";

// Apart in hue and lightness, and 3:1 or more on white and on the dark ground.
const COLOURS = ["#3b82f6", "#d97706", "#059669", "#db2777", "#8b5cf6", "#0891b2", "#65a30d", "#e11d48"];
const SHOWN_POINTS = 200;

let canvas = null;

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
  const details = h("details", { class: "wb-details" }, h("summary", {}, "The same as numbers"), numbers);
  show(panel, controls, h("figure", { class: "wb-figure" }, h("div", { class: "wb-canvas" }, own.element), caption), details);
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
  const boxes = numbers.map((name) => {
    const state = { checked: choice.values.includes(name), onchange: (event) => toggle(name, event.target.checked) };
    return h("label", { class: "wb-check-label" }, h("input", { type: "checkbox", class: "wb-checkbox", ...state }), ` ${name}`);
  });
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
  const legend = h("legend", { class: "wb-hint" }, "Values (none: the number of rows)");
  const values = boxes.length > 0 && h("fieldset", { class: "wb-values" }, legend, boxes);
  return h("div", { class: "wb-chart-controls" }, picks.map(({ label }) => label), values);
}

function pick(text, options, chosen, changed) {
  const option = ([value, label]) => h("option", { value, selected: value === chosen }, label);
  const select = h("select", { class: "wb-input" }, options.map(option));
  return { select, changed, label: h("label", { class: "wb-pick" }, h("span", { class: "wb-hint" }, text), select) };
}

function same(names) {
  return names.map((name) => [name, name]);
}

function describe({ shape, across, values, split }, { series, left, isTime }) {
  const points = series.flatMap((one) => valued(one.points));
  const what = split ? `${values[0] ?? "rows"} by ${split}` : values.join(", ") || "rows";
  const title = `${shape === "line" ? "Line chart" : "Bar chart"} of ${what} across ${across}`;
  if (!points.length) return `${title}: no value to draw.`;
  const [least, most] = extremes(points.map(({ text }) => text));
  const range = `from ${least} to ${most}`;
  const gaps = series.reduce((sum, one) => sum + one.points.length - valued(one.points).length, 0);
  const missing = gaps ? ` ${counted(gaps, "bucket")} without a row ${gaps === 1 ? "is a gap" : "are gaps"}.` : "";
  const extent = isTime ? `, ${between(points[0].across, points.at(-1).across)}` : "";
  return `${title}: ${counted(points.length, "value")} ${range}${extent}.${missing}${left ? ` Not drawn: ${left}.` : ""}`;
}

/** The points that have a value; the others are buckets without a row. */
function valued(points) {
  return points.filter(({ value }) => value !== null);
}

function pointsTable({ across }, { series, isTime }) {
  const all = series.flatMap(({ name, points }) => valued(points).map((point) => ({ name, ...point })));
  const place = (point) => (isTime ? `${writeMoment(point.across)} UTC` : point.label);
  const line = (point) => [place(point), point.name, h("td", { class: "wb-number" }, point.text)];
  const numbers = table("wb-table", [across, "series", "value"], all.slice(0, SHOWN_POINTS).map(line));
  const rest = all.length - SHOWN_POINTS;
  return h("div", { class: "wb-scroll" }, numbers, rest > 0 ? h("p", { class: "wb-hint" }, `and ${counted(rest, "more value")}`) : null);
}

/** Chart.js as it comes with django-unfold, in the colours of the page's theme, redrawn when that changes. */
class ChartCanvas {
  constructor() {
    this.element = h("canvas", { role: "img" });
    this.chart = null;
    this.observer = new MutationObserver(() => this.recolour());
    this.observer.observe(document.documentElement, { attributeFilter: ["class"] });
  }

  /** Draw it; `text` is what a screen reader says instead. */
  draw(choice, drawing, text) {
    this.chart?.destroy();
    this.element.setAttribute("aria-label", text);
    const { Chart } = window;
    this.chart = new Chart(this.element, {
      type: choice.shape,
      data: choice.shape === "bar" ? barData(drawing) : lineData(drawing),
      options: options(choice, drawing),
    });
    this.recolour();
  }

  recolour() {
    if (!this.chart) return;
    const style = window.getComputedStyle(this.element);
    const [text, line] = [style.getPropertyValue("--wb-text"), style.getPropertyValue("--wb-line")];
    const { scales, plugins } = this.chart.options;
    for (const axis of [scales.x, scales.y]) {
      axis.ticks.color = text;
      axis.title.color = text;
      axis.grid.color = line;
      axis.border = { color: line };
    }
    plugins.legend.labels.color = text;
    this.chart.update("none");
  }

  remove() {
    this.observer.disconnect();
    this.chart?.destroy();
  }
}

function lineData({ series }) {
  const isSmall = series.every(({ points }) => points.length <= 60);
  return {
    datasets: series.map(({ name, points }, index) => ({
      label: name,
      points,
      data: points.map(({ across, value }) => ({ x: across, y: value })),
      borderColor: COLOURS[index],
      backgroundColor: COLOURS[index],
      borderWidth: 2,
      pointRadius: isSmall ? 3 : points.map((_point, index) => (isAlone(points, index) ? 2 : 0)),
      tension: 0,
    })),
  };
}

/** Whether no line leads to a point, because there are gaps on both sides of it. */
function isAlone(points, index) {
  return (points[index - 1]?.value ?? null) === null && (points[index + 1]?.value ?? null) === null;
}

function barData({ series, isTime }) {
  const places = [...new Map(series.flatMap(({ points }) => points.map((point) => [point.key, point]))).values()];
  if (isTime) places.sort((one, other) => Number(one.across) - Number(other.across));
  return {
    labels: places.map(({ across, label }) => (isTime ? writeMoment(across) : label)),
    datasets: series.map(({ name, points }, index) => {
      const byKey = new Map(points.map((point) => [point.key, point]));
      const drawn = places.map(({ key }) => byKey.get(key) ?? null);
      return { label: name, points: drawn, data: drawn.map((point) => point?.value ?? null), backgroundColor: COLOURS[index] };
    }),
  };
}

/** A number of an axis; Chart.js itself writes one digit of the great and the small ones, which makes some the same. */
function writeTick(value) {
  const size = Math.abs(value);
  const isUsual = size === 0 || (size >= 1e-4 && size < 1e15);
  return isUsual ? value.toLocaleString("en", { maximumSignificantDigits: 12 }) : String(Number(value.toPrecision(12)));
}

function options(choice, { series, isTime }) {
  const isTimeLine = isTime && choice.shape === "line";
  const isCategory = choice.shape === "bar" || (!isTime && typeof series[0]?.points[0]?.across === "string");
  const across = {
    type: isCategory ? "category" : "linear",
    title: { display: true, text: isTime ? `${choice.across} (UTC)` : choice.across },
    grid: {},
    ticks: { maxRotation: 45, autoSkip: true, ...(isCategory ? {} : { callback: writeTick }) },
  };
  if (isTimeLine) {
    across.afterBuildTicks = (axis) => (axis.ticks = timeTicks(axis.min, axis.max, axis.maxWidth));
    across.ticks.callback = (_value, index, ticks) => ticks[index].text;
  }
  const pointOf = ({ dataset, dataIndex }) => dataset.points[dataIndex];
  const title = (items) => (isTimeLine ? `${writeMoment(items[0].parsed.x)} UTC` : pointOf(items[0])?.label ?? items[0].label);
  const label = (item) => `${item.dataset.label}: ${pointOf(item).text}`;
  // Counts have no halves.
  const isWhole = series.every(({ points }) => valued(points).every((point) => Number.isInteger(point.value)));
  const value = { beginAtZero: true, title: { display: false }, grid: {}, ticks: { callback: writeTick, ...(isWhole ? { precision: 0 } : {}) } };
  return {
    animation: false,
    maintainAspectRatio: false,
    interaction: { mode: "index", intersect: false },
    locale: "en",
    scales: { x: across, y: value },
    plugins: { legend: { display: series.length > 1, labels: { boxWidth: 12 } }, tooltip: { callbacks: { title, label } } },
  };
}
