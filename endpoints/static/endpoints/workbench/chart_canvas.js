/** Chart.js as it comes with django-unfold, in the colours of the page's theme, redrawn when that changes. */

import { shortMoment, timeTicks, wholeMoment } from "./chart_axis.js";
import { h } from "./dom.js";

// Apart in hue and lightness, and 3:1 or more on white and on the dark ground.
const COLOURS = ["#3b82f6", "#d97706", "#059669", "#db2777", "#8b5cf6", "#0891b2", "#65a30d", "#e11d48"];

export class ChartCanvas {
  constructor() {
    this.element = /** @type {HTMLCanvasElement} */ (h("canvas", { role: "img" }));
    /** @type {any} */
    this.chart = null;
    this.observer = new MutationObserver(() => this.recolour());
    this.observer.observe(document.documentElement, { attributeFilter: ["class"] });
  }

  /**
   * @param {import("./chart_data.js").Choice} choice
   * @param {import("./chart_data.js").Drawing} drawing
   * @param {string} text what a screen reader says instead
   */
  draw(choice, drawing, text) {
    this.chart?.destroy();
    this.element.setAttribute("aria-label", text);
    const { Chart } = /** @type {any} */ (window);
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
      data: points.map(({ across, value }) => ({ x: across, y: value })),
      borderColor: COLOURS[index],
      backgroundColor: COLOURS[index],
      borderWidth: 2,
      pointRadius: isSmall ? 3 : 0,
      tension: 0,
    })),
  };
}

function barData({ series, isTime }) {
  const places = [...new Set(series.flatMap(({ points }) => points.map(({ across }) => across)))];
  if (isTime) places.sort((one, other) => Number(one) - Number(other));
  return {
    labels: places.map((place) => (isTime ? wholeMoment(Number(place)).replace(" UTC", "") : String(place))),
    datasets: series.map(({ name, points }, index) => {
      const values = new Map(points.map(({ across, value }) => [across, value]));
      return { label: name, data: places.map((place) => values.get(place) ?? null), backgroundColor: COLOURS[index] };
    }),
  };
}

function options(choice, { series, isTime }) {
  const isTimeLine = isTime && choice.shape === "line";
  const isCategory = choice.shape === "bar" || (!isTime && typeof series[0]?.points[0]?.across === "string");
  const across = {
    type: isCategory ? "category" : "linear",
    title: { display: true, text: isTime ? `${choice.across} (UTC)` : choice.across },
    grid: {},
    ticks: { maxRotation: 45, autoSkip: true },
  };
  if (isTimeLine) {
    across.afterBuildTicks = (axis) => (axis.ticks = timeTicks(axis.min, axis.max, axis.maxWidth));
    across.ticks.callback = function shortened(value) {
      return shortMoment(value, this.max - this.min);
    };
  }
  const title = (items) => (isTimeLine ? wholeMoment(items[0].parsed.x) : items[0].label);
  const value = { beginAtZero: true, title: { display: false }, grid: {}, ticks: { precision: 6 } };
  return {
    animation: false,
    maintainAspectRatio: false,
    interaction: { mode: "index", intersect: false },
    locale: "en",
    scales: { x: across, y: value },
    plugins: { legend: { display: series.length > 1, labels: { boxWidth: 12 } }, tooltip: { callbacks: { title } } },
  };
}
