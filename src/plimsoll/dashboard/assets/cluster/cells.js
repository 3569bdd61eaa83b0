// Layout of the pod cells within a tile.

/**
 * @typedef {{columns: number, rows: number, step: number, x: number, y: number, barsAt: number, named: boolean}} Grid
 * `step` from cell to cell, `x` and `y` of the first, `barsAt` where the bars of CPU and memory begin (0: none)
 */

const NAMED_FROM_PX = 84;
const BARS_FROM_PX = 24;

/** @param {number} size of the tile as seen @param {number} pods @param {number} expected @returns {Grid} */
export function gridOf(size, pods, expected) {
  const pad = size >= 40 ? 5 : size >= 18 ? 2 : 1;
  const named = size >= NAMED_FROM_PX;
  const head = named ? 15 : 0;
  const foot = size >= BARS_FROM_PX ? (size >= 60 ? 11 : 7) : 0;
  const width = size - 2 * pad;
  const height = size - 2 * pad - head - foot;
  const wanted = Math.max(pods, expected, 1);
  let columns = Math.max(1, Math.round(Math.sqrt((wanted * width) / height)));
  while (columns * Math.floor((height * columns) / width || 1) < wanted) columns += 1;
  const rows = Math.ceil(wanted / columns);
  return { columns, rows, step: width / columns, x: pad, y: pad + head, barsAt: foot ? size - pad - foot + 3 : 0, named };
}

/** Which pod is at a point of the tile, or -1. @param {Grid} grid @param {number} x @param {number} y @param {number} pods */
export function podAt(grid, x, y, pods) {
  const column = Math.floor((x - grid.x) / grid.step);
  const row = Math.floor((y - grid.y) / grid.step);
  if (column < 0 || column >= grid.columns || row < 0) return -1;
  const index = row * grid.columns + column;
  return index < pods ? index : -1;
}
