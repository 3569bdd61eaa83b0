// The legend of the shapes, drawn by the same code as the map.
import { h } from "../dom.js";
import { paintNode } from "./paint.js";
import { readPalette } from "./palette.js";

const SIDE_PX = 26;
const PODS = /** @type {const} */ ([
  ["spot", "spot", "r"],
  ["on-demand", "on-demand", "r"],
  ["starting", "on-demand", "s"],
  ["ending", "on-demand", "t"],
  ["failed", "on-demand", "f"],
  ["misplaced", "spot", "r"],
]);
const NODES = ["not-ready", "cordoned", "draining", "leaving", "coming"];

const UNUSED = { cpu: [0, 0], memory: [0, 0] };

export function legend() {
  const entries = [
    ...PODS.map(([words, capacity, state]) => entry(words, { class: words === "misplaced" ? "on-demand" : capacity, state: "bare", pods: [words === "misplaced" ? ["", "", state, capacity] : ["", "", state]] })),
    ...NODES.map((state) => entry(`${state} node`, { class: "on-demand", state, pods: [] })),
    entry("CPU and memory requested", { class: "on-demand", state: "ready", pods: [], cpu: [3, 4], memory: [2, 4] }),
  ];
  const element = h("ul", { class: "legend", "aria-label": "What the shapes mean" }, entries.map(({ item }) => item));
  const repaint = () => entries.forEach(({ paint }) => paint());
  repaint();
  return { element, repaint };
}

function entry(words, node) {
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { width: SIDE_PX * 2, height: SIDE_PX * 2, "aria-hidden": "true" }));
  const pen = canvas.getContext("2d");
  const bare = node.state === "bare";
  const paint = () => {
    const palette = readPalette(pen);
    pen.setTransform(2, 0, 0, 2, 0, 0);
    pen.clearRect(0, 0, SIDE_PX, SIDE_PX);
    // A single pod is shown at the size of a whole node without its frame.
    if (bare) paintNode(pen, { ...palette, tile: "transparent", line: "transparent", states: { ready: { ...palette.states.ready, colour: "transparent" } } }, "", { ...UNUSED, ...node }, 2, 2, 22, 1, true);
    // As small as a tile that has bars may be, for those that show them.
    else paintNode(pen, palette, "", { ...UNUSED, ...node }, 1, 1, node.cpu ? 24 : 23, 9, true);
  };
  return { item: h("li", {}, canvas, words), paint };
}
