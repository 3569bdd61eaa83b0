// The visible part of the map and its zoom level.

const CLOSEST_TILE_PX = 260;

export class Camera {
  constructor() {
    this.zoom = 1;
    this.x = 0;
    this.y = 0;
  }

  reset() {
    this.zoom = 1;
    this.x = 0;
    this.y = 0;
  }

  /** Converts a point on the screen to a point of the map. */
  fromScreen(/** @type {number} */ x, /** @type {number} */ y) {
    return { x: x / this.zoom + this.x, y: y / this.zoom + this.y };
  }

  toScreen(/** @type {number} */ x, /** @type {number} */ y) {
    return { x: (x - this.x) * this.zoom, y: (y - this.y) * this.zoom };
  }

  /** Zooms; the point under the pointer stays in place. */
  zoomBy(/** @type {number} */ factor, /** @type {number} */ x, /** @type {number} */ y, /** @type {number} */ tile) {
    const under = this.fromScreen(x, y);
    const before = this.zoom;
    this.zoom = Math.min(Math.max(1, this.zoom * factor), Math.max(1, CLOSEST_TILE_PX / tile));
    this.x = under.x - x / this.zoom;
    this.y = under.y - y / this.zoom;
    return this.zoom !== before;
  }

  panBy(/** @type {number} */ x, /** @type {number} */ y) {
    this.x -= x / this.zoom;
    this.y -= y / this.zoom;
  }

  /** Keeps the map on the screen. */
  hold(/** @type {import("./arrange.js").Arrangement} */ arrangement, /** @type {number} */ width, /** @type {number} */ height) {
    this.x = Math.min(Math.max(0, this.x), Math.max(0, arrangement.width - width / this.zoom));
    this.y = Math.min(Math.max(0, this.y), Math.max(0, arrangement.height - height / this.zoom));
  }

  /** Moves as little as necessary to make a tile visible. */
  include(/** @type {{x: number, y: number}} */ place, /** @type {number} */ tile, /** @type {number} */ width, /** @type {number} */ height) {
    const margin = tile / 2;
    this.x = Math.max(Math.min(this.x, place.x - margin), place.x + tile + margin - width / this.zoom);
    this.y = Math.max(Math.min(this.y, place.y - margin), place.y + tile + margin - height / this.zoom);
  }
}
