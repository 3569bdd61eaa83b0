// The map on two canvases: the cluster below, and above it the frame around the object under the pointer, which changes
// without repainting fifty thousand cells. After a change only the changed tiles are painted.
import { h } from "../dom.js";
import { arrange, at, GROUP_HEAD_PX, ZONE_HEAD_PX } from "./arrange.js";
import { Camera } from "./camera.js";
import { gridOf, podAt } from "./cells.js";
import { fitText, paintNode } from "./paint.js";
import { readPalette } from "./palette.js";
import { count } from "../words.js";

/** @typedef {import("../snapshot.js").ClusterNode} ClusterNode */
/** @typedef {{node: string | null, pod: number, group: string}} Spot what is at a point; `pod` is -1 between the cells */

export class ClusterCanvas {
  /** @param {Map<string, ClusterNode>} nodes */
  constructor(nodes) {
    this.nodes = nodes;
    this.camera = new Camera();
    this.base = /** @type {HTMLCanvasElement} */ (h("canvas", { "aria-hidden": "true" }));
    this.over = /** @type {HTMLCanvasElement} */ (h("canvas", { "aria-hidden": "true" }));
    this.element = h("div", { class: "map", tabindex: "0", role: "application", "aria-roledescription": "map of the cluster" }, this.base, this.over);
    this.pen = this.base.getContext("2d", { alpha: true });
    this.penOver = this.over.getContext("2d");
    this.palette = readPalette(this.pen);
    this.arrangement = arrange(nodes, 1, 1);
    this.width = 0;
    this.height = 0;
    /** @type {((name: string, node: ClusterNode) => import("./paint.js").Lit) | null} */
    this.filter = null;
    /** @type {Spot | null} */
    this.framed = null;
  }

  /** Adapts to the size of the element. */
  fit() {
    const { clientWidth, clientHeight } = this.element;
    const ratio = devicePixelRatio;
    if (clientWidth === 0 || (clientWidth === this.width && clientHeight === this.height && ratio === this.ratio)) return;
    [this.width, this.height, this.ratio] = [clientWidth, clientHeight, ratio];
    for (const canvas of [this.base, this.over]) {
      canvas.width = Math.round(clientWidth * ratio);
      canvas.height = Math.round(clientHeight * ratio);
    }
    this.arrangement = arrange(this.nodes, this.width, this.height);
    this.paint();
  }

  /** @param {Set<string> | null} changed null: anything may have */
  update(changed) {
    if (this.width === 0) return;
    if (changed === null || [...changed].some((name) => this.hasMoved(name))) {
      this.arrangement = arrange(this.nodes, this.width, this.height, this.arrangement.tile);
      this.paint();
      return;
    }
    for (const name of changed) this.paintTile(name, true);
  }

  hasMoved(/** @type {string} */ name) {
    const node = this.nodes.get(name);
    const place = this.arrangement.places.get(name);
    return node?.zone !== place?.zone || node?.group !== place?.group;
  }

  repaint() {
    this.palette = readPalette(this.pen);
    this.paint();
  }

  paint() {
    const { pen, palette, camera } = this;
    camera.hold(this.arrangement, this.width, this.height);
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    for (const zone of this.arrangement.zones) {
      const corner = camera.toScreen(zone.x, zone.y);
      const [w, height] = [zone.w * camera.zoom, zone.h * camera.zoom];
      if (!this.sees(corner, w, height)) continue;
      pen.fillStyle = palette.surface;
      pen.fillRect(corner.x, corner.y, w, height);
      pen.strokeStyle = palette.line;
      pen.lineWidth = 1;
      pen.strokeRect(corner.x + 0.5, corner.y + 0.5, w - 1, height - 1);
      for (const group of zone.groups) this.paintGroup(group);
      this.paintHead(zone.name || "no zone yet", zone.nodes, zone.x, zone.y, zone.w, ZONE_HEAD_PX, 13, 600, palette.ink);
    }
    this.frame(this.framed);
  }

  paintGroup(/** @type {import("./arrange.js").GroupBox} */ group) {
    const { camera, arrangement } = this;
    const corner = camera.toScreen(group.x, group.y);
    if (!this.sees(corner, group.w * camera.zoom, group.h * camera.zoom)) return;
    // Skip rows outside the visible area.
    const step = arrangement.tile + arrangement.gap;
    const top = group.y + GROUP_HEAD_PX;
    const first = Math.max(0, Math.floor((camera.y - top) / step));
    const last = Math.ceil((camera.y + this.height / camera.zoom - top) / step);
    for (const name of group.names.slice(first * group.columns, Math.max(0, last + 1) * group.columns)) this.paintTile(name, false);
    this.paintHead(group.name || "no group", group.names.length, group.x, group.y, group.w, GROUP_HEAD_PX, 11, 400, this.palette.muted);
  }

  /** Labels keep their size at every zoom level. */
  paintHead(title, amount, x, y, w, h, size, weight, ink) {
    const { pen, camera } = this;
    const corner = camera.toScreen(x, y);
    const left = Math.max(corner.x, 0) + 8;
    const right = Math.min(corner.x + w * camera.zoom, this.width) - 8;
    const tall = h * camera.zoom;
    if (right - left < 24 || corner.y + tall < 0 || corner.y > this.height) return;
    pen.fillStyle = ink;
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    pen.font = `${size - 1}px system-ui, sans-serif`;
    const figures = count(amount);
    pen.fillText(figures, right, corner.y + tall / 2);
    const room = right - left - pen.measureText(figures).width - 8;
    pen.textAlign = "left";
    pen.font = `${weight} ${size}px system-ui, sans-serif`;
    pen.fillText(fitText(pen, title, room), left, corner.y + tall / 2);
  }

  paintTile(/** @type {string} */ name, /** @type {boolean} */ alone) {
    const { pen, camera, arrangement } = this;
    const node = this.nodes.get(name);
    const place = arrangement.places.get(name);
    if (!node || !place) return;
    const corner = camera.toScreen(place.x, place.y);
    const size = arrangement.tile * camera.zoom;
    if (!this.sees(corner, size, size)) return;
    // Aligned to screen pixels: edges stay sharp, and a repainted tile covers the old one exactly.
    const x = Math.round(corner.x * this.ratio) / this.ratio;
    const y = Math.round(corner.y * this.ratio) / this.ratio;
    const sharp = Math.max(2, Math.round(size * this.ratio) / this.ratio);
    if (alone) {
      pen.fillStyle = this.palette.surface;
      pen.fillRect(x - 1, y - 1, sharp + 2, sharp + 2);
    }
    paintNode(pen, this.palette, name, node, x, y, sharp, arrangement.podsExpected, this.filter ? this.filter(name, node) : true);
  }

  sees(/** @type {{x: number, y: number}} */ corner, /** @type {number} */ w, /** @type {number} */ h) {
    return corner.x < this.width && corner.y < this.height && corner.x + w > 0 && corner.y + h > 0;
  }

  /** @param {number} x @param {number} y on the element @returns {Spot | null} */
  at(x, y) {
    const point = this.camera.fromScreen(x, y);
    const found = at(this.arrangement, point.x, point.y);
    if (!found?.node) return found && { ...found, pod: -1 };
    const place = this.arrangement.places.get(found.node);
    const corner = this.camera.toScreen(place.x, place.y);
    const pods = this.nodes.get(found.node)?.pods.length ?? 0;
    const grid = gridOf(this.arrangement.tile * this.camera.zoom, pods, this.arrangement.podsExpected);
    return { ...found, pod: podAt(grid, x - corner.x, y - corner.y, pods) };
  }

  /** Draws the frame around a node, and around one of its pods. @param {Spot | null} spot */
  frame(spot) {
    this.framed = spot;
    const { penOver: pen, camera, arrangement } = this;
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    const place = spot?.node ? arrangement.places.get(spot.node) : undefined;
    if (!place) return;
    const corner = camera.toScreen(place.x, place.y);
    const size = arrangement.tile * camera.zoom;
    pen.strokeStyle = this.palette.accent;
    pen.lineWidth = 2;
    pen.strokeRect(corner.x - 1, corner.y - 1, size + 2, size + 2);
    const pods = this.nodes.get(spot.node)?.pods.length ?? 0;
    if (spot.pod < 0 || spot.pod >= pods) return;
    const grid = gridOf(size, pods, arrangement.podsExpected);
    if (grid.step < 4) return;
    pen.lineWidth = 1.5;
    pen.strokeStyle = this.palette.ink;
    pen.strokeRect(corner.x + grid.x + (spot.pod % grid.columns) * grid.step - 1, corner.y + grid.y + Math.floor(spot.pod / grid.columns) * grid.step - 1, grid.step, grid.step);
  }

  /** Scrolls a node into view. */
  reveal(/** @type {string} */ name) {
    const place = this.arrangement.places.get(name);
    if (!place) return;
    const [x, y] = [this.camera.x, this.camera.y];
    this.camera.include(place, this.arrangement.tile, this.width, this.height);
    this.camera.hold(this.arrangement, this.width, this.height);
    if (x !== this.camera.x || y !== this.camera.y) this.paint();
  }

  zoomBy(/** @type {number} */ factor, x = this.width / 2, y = this.height / 2) {
    if (!this.camera.zoomBy(factor, x, y, this.arrangement.tile)) return false;
    this.element.classList.toggle("close", this.camera.zoom > 1);
    this.paint();
    return true;
  }

  showAll() {
    this.camera.reset();
    this.element.classList.remove("close");
    this.paint();
  }
}
