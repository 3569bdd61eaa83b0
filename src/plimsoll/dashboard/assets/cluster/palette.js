// The colours of the map, read from the theme once, and the pattern of nodes that are not ready.
import { colour } from "../theme.js";

/** The appearance of each node state: colour, dashes of the frame, and a sign for users who cannot see the colours. */
export const NODE_STATES = {
  ready: { colour: "--line", dash: [], sign: "" },
  "not-ready": { colour: "--bad", dash: [], sign: "!" },
  cordoned: { colour: "--muted", dash: [4, 3], sign: "–" },
  draining: { colour: "--leaving", dash: [4, 2], sign: "↓" },
  leaving: { colour: "--leaving", dash: [1, 2], sign: "×" },
  coming: { colour: "--good", dash: [2, 2], sign: "+" },
};

/** @param {CanvasRenderingContext2D} context */
export function readPalette(context) {
  const states = Object.fromEntries(Object.entries(NODE_STATES).map(([state, look]) => [state, { ...look, colour: colour(look.colour) }]));
  return {
    ink: colour("--ink"),
    muted: colour("--muted"),
    line: colour("--line"),
    surface: colour("--surface"),
    tile: colour("--tile"),
    bar: colour("--bar"),
    accent: colour("--accent"),
    bad: colour("--bad"),
    spot: colour("--spot"),
    "on-demand": colour("--on-demand"),
    states,
    hatch: hatch(context, colour("--bad")),
  };
}

/** @typedef {ReturnType<typeof readPalette>} Palette */

function hatch(context, stroke) {
  const piece = new OffscreenCanvas(8, 8);
  const pen = piece.getContext("2d");
  pen.strokeStyle = stroke;
  pen.globalAlpha = 0.45;
  pen.lineWidth = 1.5;
  for (const shift of [-8, 0, 8]) {
    pen.moveTo(shift, 8);
    pen.lineTo(shift + 8, 0);
  }
  pen.stroke();
  return context.createPattern(piece, "repeat");
}
