// The history of a node group: ready and current nodes as areas, the desired size as a dashed line, and the price per hour
// with its own axis on the right, if the provider reports prices.
import uPlot from "./vendor/uplot/uPlot.esm.js";
import { h } from "./dom.js";
import { colour } from "./theme.js";
import { count, price } from "./words.js";

const HEIGHT_PX = 150;
// Just after the start the first minutes do not fill the whole width, and no two ticks have the same label.
const SHORTEST_SECONDS = 600;
const TICKS_SECONDS = [60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600];
// All charts share one cursor, to compare groups at the same time.
const TOGETHER = uPlot.sync("groups");

export class GroupChart {
  /** @param {string} label */
  constructor(label) {
    this.element = h("div", { class: "chart", role: "img", "aria-label": label });
    /** @type {import("./snapshot.js").Point[]} */
    this.points = [];
    this.priced = false;
  }

  /** @param {import("./snapshot.js").Point[]} history @param {number} seconds */
  show(history, seconds) {
    const from = (history.at(-1)?.[0] ?? 0) - seconds;
    this.points = history.filter(([at]) => at >= from);
    const priced = this.points.some((point) => typeof point[4] === "number");
    // The series of a plot cannot change after construction.
    if (priced !== this.priced) this.leave();
    this.priced = priced;
    const last = this.points.at(-1);
    if (last) {
      const cost = typeof last[4] === "number" ? `, ${price(last[4])} an hour` : "";
      this.element.setAttribute("aria-description", `at the end ${last[1]} nodes, ${last[2]} ready, ${last[3] ?? "an unknown number"} wanted${cost}`);
    }
    if (this.plot) {
      this.plot.setData(this.data());
      this.tellLast(this.plot);
    } else this.make();
  }

  data() {
    const column = (/** @type {number} */ index) => this.points.map((point) => point[index] ?? null);
    const data = [column(0), column(1), column(2), column(3)];
    if (this.priced) data.push(column(4));
    return data;
  }

  make() {
    const width = this.element.clientWidth;
    if (width === 0 || this.points.length === 0) return;
    this.plot = new uPlot(this.options(width), this.data(), this.element);
    this.tellLast(this.plot);
  }

  /** Without a pointer, the legend shows the newest values. */
  tellLast(/** @type {any} */ plot) {
    if (typeof plot.cursor.idx !== "number") plot.setLegend({ idx: this.points.length - 1 }, false);
  }

  options(/** @type {number} */ width) {
    const grid = { stroke: colour("--line"), width: 1 };
    const axis = { stroke: colour("--muted"), grid, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const stepped = uPlot.paths.stepped({ align: 1 });
    const series = (label, stroke, rest) => ({ label, stroke, paths: stepped, points: { show: false }, width: 1.5, ...rest });
    return {
      width,
      height: HEIGHT_PX,
      padding: [6, 10, 0, 0],
      hooks: { setCursor: [(plot) => this.tellLast(plot)] },
      cursor: { sync: { key: TOGETHER.key }, drag: { x: false, y: false }, points: { size: 5 } },
      scales: { x: { range: (_, low, high) => [Math.min(low, high - SHORTEST_SECONDS), high] }, y: { range: (_, low, high) => [0, Math.max(high * 1.15, 1)] }, price: { range: (_, low, high) => [0, high > 0 ? high * 1.15 : 1] } },
      axes: [
        { ...axis, space: 60, incrs: TICKS_SECONDS, values: "{HH}:{mm}", size: 26 },
        { ...axis, size: 38, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000], values: (_, ticks) => ticks.map(count) },
        ...(this.priced ? [{ ...axis, scale: "price", side: 1, size: 48, grid: { show: false }, values: (_, ticks) => ticks.map(price) }] : []),
      ],
      series: [
        { label: "at", value: "{HH}:{mm}" },
        series("now", colour("--chart-now"), { fill: colour("--chart-now-fill") }),
        series("ready", colour("--chart-ready"), { fill: colour("--chart-ready-fill") }),
        series("wanted", colour("--chart-wanted"), { dash: [5, 4] }),
        ...(this.priced ? [series("price an hour", colour("--spot-ink"), { scale: "price", dash: [1, 3], value: (_, value) => (value === null ? "–" : price(value)) })] : []),
      ],
    };
  }

  fit() {
    if (!this.plot) this.make();
    else if (this.element.clientWidth > 0) this.plot.setSize({ width: this.element.clientWidth, height: HEIGHT_PX });
  }

  /** Uses the colours of the current theme. */
  repaint() {
    this.leave();
    this.make();
  }

  leave() {
    this.plot?.destroy();
    this.plot = undefined;
  }
}
