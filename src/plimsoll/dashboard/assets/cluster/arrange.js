// Layout of the map: zones side by side, the groups of a zone below each other, one tile per node.
// A function of its arguments, without side effects. All sizes are in unzoomed pixels.
import { byName } from "../words.js";

export const ZONE_HEAD_PX = 24;
export const GROUP_HEAD_PX = 18;
const PAD_PX = 8;
const BETWEEN_ZONES_PX = 12;
const NARROWEST_ZONE_PX = 190;
const LARGEST_TILE_PX = 124;
const SMALLEST_TILE_PX = 5;
// A tile that would grow by less than this keeps its size, so that the map does not move with every new node.
const CALM = 0.82;

/**
 * @typedef {{name: string, x: number, y: number, w: number, h: number, columns: number, names: string[]}} GroupBox
 * @typedef {{name: string, x: number, y: number, w: number, h: number, nodes: number, groups: GroupBox[]}} ZoneBox
 * @typedef {{x: number, y: number, zone: string, group: string, index: number}} Place
 * @typedef {{tile: number, gap: number, width: number, height: number, zones: ZoneBox[], places: Map<string, Place>, order: string[],
 *   podsExpected: number}} Arrangement
 */

/**
 * @param {Map<string, import("../snapshot.js").ClusterNode>} nodes
 * @param {number} width @param {number} height
 * @param {number} [tileBefore] of the last arrangement in the same space
 * @returns {Arrangement}
 */
export function arrange(nodes, width, height, tileBefore = 0) {
  const zones = sorted(nodes);
  let tile = LARGEST_TILE_PX;
  while (tile > SMALLEST_TILE_PX && heightOf(zones, width, tile) > height) tile = Math.max(SMALLEST_TILE_PX, tile * 0.985);
  if (tileBefore < tile && tileBefore > tile * CALM) tile = tileBefore;
  const boxes = place(zones, width, tile);
  const places = new Map();
  const order = [];
  const gap = gapOf(tile);
  for (const zone of boxes) {
    for (const group of zone.groups) {
      group.names.forEach((name, index) => {
        const x = group.x + PAD_PX + (index % group.columns) * (tile + gap);
        const y = group.y + GROUP_HEAD_PX + Math.floor(index / group.columns) * (tile + gap);
        places.set(name, { x, y, zone: zone.name, group: group.name, index });
        order.push(name);
      });
    }
  }
  const bottom = Math.max(0, ...boxes.map((zone) => zone.y + zone.h));
  return { tile, gap, width, height: Math.max(bottom, height), zones: boxes, places, order, podsExpected: podsExpected(nodes) };
}

/** @param {number} tile */
const gapOf = (tile) => (tile >= 40 ? 6 : tile >= 18 ? 3 : tile >= 9 ? 2 : 1);

/** @returns {{name: string, nodes: number, groups: Map<string, string[]>}[]} */
function sorted(nodes) {
  const zones = new Map();
  for (const [name, node] of nodes) {
    let zone = zones.get(node.zone);
    if (!zone) zones.set(node.zone, (zone = { name: node.zone, nodes: 0, groups: new Map() }));
    zone.nodes += 1;
    const group = zone.groups.get(node.group);
    if (group) group.push(name);
    else zone.groups.set(node.group, [name]);
  }
  // Nodes that are being created have no zone yet; they come last.
  const all = [...zones.values()].sort((left, right) => Number(left.name === "") - Number(right.name === "") || byName(left.name, right.name));
  for (const zone of all) {
    zone.groups = new Map([...zone.groups].sort(([left], [right]) => byName(left, right)));
    for (const names of zone.groups.values()) names.sort(byName);
  }
  return all;
}

/** The total height with tiles of that size. @param {Map<string, import("../snapshot.js").ClusterNode>} nodes */
export function heightWith(nodes, /** @type {number} */ width, /** @type {number} */ tile) {
  return heightOf(sorted(nodes), width, tile);
}

function heightOf(zones, width, tile) {
  const boxes = place(zones, width, tile);
  // No zone may be narrower than a single tile of it.
  if (boxes.some((zone) => zone.w - 2 * PAD_PX < tile)) return Infinity;
  return Math.max(0, ...boxes.map((zone) => zone.y + zone.h));
}

/** @returns {ZoneBox[]} */
function place(zones, width, tile) {
  const beside = Math.max(1, Math.min(zones.length, Math.floor((width + BETWEEN_ZONES_PX) / (NARROWEST_ZONE_PX + BETWEEN_ZONES_PX))));
  const boxes = [];
  let y = 0;
  for (let at = 0; at < zones.length; at += beside) {
    const band = bandOf(zones.slice(at, at + beside), y, width, tile);
    boxes.push(...band);
    y = Math.max(...band.map((zone) => zone.y + zone.h)) + BETWEEN_ZONES_PX;
  }
  return boxes;
}

/** Zones side by side: their widths follow their node counts, with a minimum. */
function bandOf(zones, y, width, tile) {
  const most = Math.max(...zones.map((zone) => zone.nodes));
  const weights = zones.map((zone) => Math.max(zone.nodes, most * 0.4));
  const unit = (width - BETWEEN_ZONES_PX * (zones.length - 1)) / weights.reduce((sum, one) => sum + one, 0);
  const groups = [...new Set(zones.flatMap((zone) => [...zone.groups.keys()]))].sort(byName);
  // If most zones have the same groups, each group gets a row, to compare zones. Groups of a single zone would leave gaps.
  const pairs = zones.reduce((sum, zone) => sum + zone.groups.size, 0);
  const inRows = pairs >= 0.6 * zones.length * groups.length;
  let x = 0;
  const boxes = zones.map((zone, index) => {
    const box = { name: zone.name, x, y, w: weights[index] * unit, h: 0, nodes: zone.nodes, groups: [] };
    x += box.w + BETWEEN_ZONES_PX;
    return box;
  });
  const below = boxes.map(() => y + ZONE_HEAD_PX);
  for (const group of groups) {
    boxes.forEach((box, index) => {
      const names = zones[index].groups.get(group);
      if (!names) return;
      const columns = Math.max(1, Math.floor((box.w - 2 * PAD_PX + gapOf(tile)) / (tile + gapOf(tile))));
      const h = GROUP_HEAD_PX + Math.ceil(names.length / columns) * (tile + gapOf(tile)) + PAD_PX;
      box.groups.push({ name: group, x: box.x, y: below[index], w: box.w, h, columns, names });
      below[index] += h;
    });
    if (inRows) below.fill(Math.max(...below));
  }
  boxes.forEach((box, index) => {
    box.h = (inRows ? Math.max(...below) : below[index]) - y;
  });
  return boxes;
}

/** Number of cells per tile: nearly all nodes get cells of one size, and the few with more pods get smaller ones. */
function podsExpected(nodes) {
  const counts = [...nodes.values()].map((node) => node.pods.length).sort((left, right) => left - right);
  return Math.max(9, counts[Math.floor(counts.length * 0.95)] ?? 0);
}

/** The node at a point of the arrangement, or its group. @param {Arrangement} arrangement @param {number} x @param {number} y */
export function at(arrangement, x, y) {
  const { tile, gap } = arrangement;
  const inside = (/** @type {{x: number, y: number, w: number, h: number}} */ box) => x >= box.x && x < box.x + box.w && y >= box.y && y < box.y + box.h;
  const group = arrangement.zones.find(inside)?.groups.find(inside);
  if (!group) return null;
  const column = Math.floor((x - group.x - PAD_PX) / (tile + gap));
  const row = Math.floor((y - group.y - GROUP_HEAD_PX) / (tile + gap));
  if (row < 0) return { group: group.name, node: null };
  const name = column >= 0 && column < group.columns ? group.names[row * group.columns + column] : undefined;
  if (name === undefined) return null;
  const where = arrangement.places.get(name);
  return x < where.x + tile && y < where.y + tile ? { group: group.name, node: name } : null;
}

/** The neighbour above or below: the nearest row in that direction, and in it the nearest tile. @param {Arrangement} arrangement */
export function beyond(arrangement, /** @type {string} */ name, /** @type {1 | -1} */ direction) {
  const from = arrangement.places.get(name);
  let best = name;
  let least = Infinity;
  for (const [other, to] of arrangement.places) {
    const down = (to.y - from.y) * direction;
    if (down <= 0) continue;
    const distance = down + 3 * Math.abs(to.x - from.x);
    if (distance < least) [best, least] = [other, distance];
  }
  return best;
}
