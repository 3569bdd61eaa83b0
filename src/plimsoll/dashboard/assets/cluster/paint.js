// Paints one node: its frame, a cell per pod, bars for CPU and memory. Small tiles get less detail.
import { visible } from "../words.js";
import { gridOf } from "./cells.js";

// Below these sizes on screen, a cell is a plain block, and all cells of a tile are one area.
const ROUND_FROM_PX = 5;
const CELLS_FROM_PX = 2.2;
const DIMMED = 0.16;

/**
 * @typedef {true | false | Set<number>} Lit whether a node matches the filter: wholly, not at all, or some of its pods
 * @param {CanvasRenderingContext2D} pen
 * @param {import("./palette.js").Palette} palette
 * @param {string} name
 * @param {import("../snapshot.js").ClusterNode} node
 * @param {number} x @param {number} y @param {number} size
 * @param {number} expected
 * @param {Lit} lit
 */
export function paintNode(pen, palette, name, node, x, y, size, expected, lit) {
  const grid = gridOf(size, node.pods.length, expected);
  pen.globalAlpha = lit === false ? DIMMED : 1;
  paintGround(pen, palette, node, x, y, size);
  if (grid.step < CELLS_FROM_PX) paintLevel(pen, palette, node, x, y, size, expected);
  else paintPods(pen, palette, node, x + grid.x, y + grid.y, grid, lit);
  if (grid.barsAt) {
    const height = size >= 60 ? 3 : 2;
    paintBar(pen, palette, node.cpu, x + grid.x, y + grid.barsAt, size - 2 * grid.x, height);
    paintBar(pen, palette, node.memory, x + grid.x, y + grid.barsAt + height + 1, size - 2 * grid.x, height);
  }
  if (grid.named) paintName(pen, palette, name, node, x + grid.x, y + grid.x, size - 2 * grid.x);
  paintSign(pen, palette, node, x, y, size, grid);
  pen.globalAlpha = 1;
}

function paintGround(pen, palette, node, x, y, size) {
  const look = palette.states[node.state] ?? palette.states.ready;
  pen.fillStyle = palette.tile;
  pen.fillRect(x, y, size, size);
  if (node.state === "not-ready" && size >= 9) {
    pen.fillStyle = palette.hatch;
    pen.fillRect(x, y, size, size);
  }
  if (node.state === "ready" && size < 12) return;
  const thick = node.state === "ready" ? 1 : size >= 30 ? 2 : 1;
  pen.strokeStyle = look.colour;
  pen.lineWidth = thick;
  pen.setLineDash(size >= 14 ? look.dash : []);
  pen.strokeRect(x + thick / 2, y + thick / 2, size - thick, size - thick);
  pen.setLineDash([]);
}

/** The pod count relative to the usual count, as one area. */
function paintLevel(pen, palette, node, x, y, size, expected) {
  const inner = Math.max(1, size - 2);
  const height = inner * Math.min(1, node.pods.length / expected);
  pen.fillStyle = palette[node.class] ?? palette["on-demand"];
  pen.fillRect(x + 1, y + 1 + inner - height, inner, height);
}

function paintPods(pen, palette, node, x, y, grid, lit) {
  const size = Math.max(1, grid.step - (grid.step >= 8 ? 2 : grid.step >= 4 ? 1 : 0.5));
  const alpha = pen.globalAlpha;
  node.pods.forEach((pod, index) => {
    const left = x + (index % grid.columns) * grid.step;
    const top = y + Math.floor(index / grid.columns) * grid.step;
    if (lit instanceof Set) pen.globalAlpha = lit.has(index) ? alpha : DIMMED;
    paintPod(pen, palette, pod[3] ?? node.class, pod[2], pod[3] !== undefined, left, top, size);
  });
  pen.globalAlpha = alpha;
}

/** Spot is round and on-demand square; a ready pod is filled, a starting one outlined, a terminating one half filled, a failed one crossed. */
function paintPod(pen, palette, capacity, state, misplaced, x, y, size) {
  const fill = palette[capacity] ?? palette["on-demand"];
  const round = capacity === "spot" && size >= ROUND_FROM_PX;
  pen.fillStyle = fill;
  if (size < ROUND_FROM_PX) {
    if (state === "f") pen.fillStyle = palette.bad;
    if (state === "s") pen.fillRect(x, y + size / 2, size, size / 2);
    else if (state === "t") pen.fillRect(x, y, size / 2, size);
    else pen.fillRect(x, y, size, size);
    if (misplaced) {
      pen.fillStyle = palette.bad;
      pen.fillRect(x + size / 4, y + size / 4, size / 2, size / 2);
    }
    return;
  }
  const line = Math.max(1, size / 8);
  pen.beginPath();
  if (round) pen.arc(x + size / 2, y + size / 2, (size - (state === "r" ? 0 : line)) / 2, 0, 2 * Math.PI);
  else pen.rect(x + (state === "r" ? 0 : line / 2), y + (state === "r" ? 0 : line / 2), size - (state === "r" ? 0 : line), size - (state === "r" ? 0 : line));
  if (state === "r") pen.fill();
  else {
    pen.strokeStyle = fill;
    pen.lineWidth = line;
    pen.stroke();
    if (state === "t") {
      pen.save();
      pen.clip();
      pen.fillRect(x, y, size / 2, size);
      pen.restore();
    }
    if (state === "f") cross(pen, palette.bad, x + size * 0.25, y + size * 0.25, size * 0.5, line);
  }
  if (misplaced) {
    pen.strokeStyle = palette.bad;
    pen.lineWidth = Math.max(1.5, size / 6);
    pen.strokeRect(x - 0.5, y - 0.5, size + 1, size + 1);
  }
}

function cross(pen, stroke, x, y, size, line) {
  pen.strokeStyle = stroke;
  pen.lineWidth = line;
  pen.beginPath();
  pen.moveTo(x, y);
  pen.lineTo(x + size, y + size);
  pen.moveTo(x + size, y);
  pen.lineTo(x, y + size);
  pen.stroke();
}

function paintBar(pen, palette, [part, whole], x, y, width, height) {
  const share = whole > 0 ? Math.min(1, part / whole) : 0;
  pen.fillStyle = palette.line;
  pen.fillRect(x, y, width, height);
  pen.fillStyle = share > 0.9 ? palette.ink : palette.bar;
  pen.fillRect(x, y, width * share, height);
}

function paintName(pen, palette, name, node, x, y, width) {
  pen.fillStyle = palette.muted;
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "top";
  const sign = palette.states[node.state]?.sign ? 12 : 0;
  pen.fillText(fitText(pen, name, width - sign, 0.5), x, y);
}

/** Beside the name, or at the bottom right, where the fewest cells are. */
function paintSign(pen, palette, node, x, y, size, grid) {
  const look = palette.states[node.state];
  if (!look?.sign || size < 22) return;
  const height = grid.named ? 13 : Math.min(14, size * 0.36);
  const side = height * 1.05;
  pen.fillStyle = look.colour;
  const top = grid.named ? y : y + (grid.barsAt || size) - side;
  pen.fillRect(x + size - side, top, side, side);
  pen.fillStyle = palette.surface;
  pen.font = `bold ${height}px system-ui, sans-serif`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.fillText(look.sign, x + size - side / 2, top + side / 2 + 0.5);
  pen.textAlign = "left";
}

/**
 * The text, shortened to the available width.
 * @param {CanvasRenderingContext2D} pen @param {string} name @param {number} width
 * @param {number} tail share of the kept text taken from the end: names of siblings differ in their last letters
 */
export function fitText(pen, name, width, tail = 0) {
  const text = visible(name);
  if (width <= 0) return "";
  if (text.length < 200 && pen.measureText(text).width <= width) return text;
  const letters = [...text];
  const cut = (/** @type {number} */ kept) => {
    const end = Math.round(kept * tail);
    return `${letters.slice(0, kept - end).join("")}…${end > 0 ? letters.slice(-end).join("") : ""}`;
  };
  let low = 0;
  let high = Math.min(letters.length, 200);
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (pen.measureText(cut(middle)).width <= width) low = middle;
    else high = middle - 1;
  }
  return low > 0 ? cut(low) : "";
}
