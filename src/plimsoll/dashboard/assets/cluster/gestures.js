// Mouse, touch and keyboard input on the map.
import { beyond } from "./arrange.js";

const DRAG_FROM_PX = 4;
const KEY_ZOOM = 1.4;

/**
 * @param {import("./canvas.js").ClusterCanvas} map
 * @param {{point: (spot: import("./canvas.js").Spot | null, x: number, y: number) => void,
 *   focus: (spot: import("./canvas.js").Spot | null) => void, open: (spot: import("./canvas.js").Spot) => void}} on
 */
export function listenForGestures(map, on) {
  const { element } = map;
  /** @type {Map<number, {x: number, y: number}>} */
  const pointers = new Map();
  let moved = 0;
  let frame = 0;
  const soon = (/** @type {() => void} */ paint) => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(paint);
  };
  const place = (/** @type {PointerEvent | WheelEvent} */ event) => {
    const box = element.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };

  element.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, place(event));
    moved = 0;
    if (map.camera.zoom > 1) element.setPointerCapture(event.pointerId);
  });
  element.addEventListener("pointermove", (event) => {
    const now = place(event);
    const before = pointers.get(event.pointerId);
    if (!before) {
      on.point(map.at(now.x, now.y), now.x, now.y);
      return;
    }
    moved += Math.hypot(now.x - before.x, now.y - before.y);
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    pointers.set(event.pointerId, now);
    if (other) {
      const factor = Math.hypot(now.x - other.x, now.y - other.y) / Math.max(1, Math.hypot(before.x - other.x, before.y - other.y));
      map.camera.zoomBy(factor, (now.x + other.x) / 2, (now.y + other.y) / 2, map.arrangement.tile);
      element.classList.toggle("close", map.camera.zoom > 1);
    } else if (moved > DRAG_FROM_PX) {
      map.camera.panBy(now.x - before.x, now.y - before.y);
    } else return;
    on.point(null, 0, 0);
    soon(() => map.paint());
  });
  const release = (/** @type {PointerEvent} */ event) => {
    const held = pointers.delete(event.pointerId);
    if (!held || event.type === "pointercancel" || moved > DRAG_FROM_PX) return;
    const { x, y } = place(event);
    const spot = map.at(x, y);
    if (spot) {
      on.focus(spot);
      on.open(spot);
    }
  };
  element.addEventListener("pointerup", release);
  element.addEventListener("pointercancel", release);
  element.addEventListener("pointerleave", () => on.point(null, 0, 0));
  element.addEventListener(
    "wheel",
    (event) => {
      // Fully zoomed out, the wheel scrolls the page.
      if (map.camera.zoom <= 1 && event.deltaY > 0) return;
      event.preventDefault();
      const { x, y } = place(event);
      map.camera.zoomBy(Math.exp(-event.deltaY * 0.002), x, y, map.arrangement.tile);
      element.classList.toggle("close", map.camera.zoom > 1);
      on.point(null, 0, 0);
      soon(() => map.paint());
    },
    { passive: false },
  );
  element.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (press(map, on, event.key)) event.preventDefault();
  });
}

function press(map, on, /** @type {string} */ key) {
  const { order } = map.arrangement;
  const framed = map.framed?.node && map.arrangement.places.has(map.framed.node) ? map.framed : null;
  const index = framed ? order.indexOf(framed.node) : -1;
  const go = (/** @type {string | undefined} */ name, pod = -1) => {
    if (name === undefined) return true;
    const spot = { node: name, pod, group: map.arrangement.places.get(name).group };
    map.reveal(name);
    on.focus(spot);
    return true;
  };
  const pods = framed ? (map.nodes.get(framed.node)?.pods.length ?? 0) : 0;
  switch (key) {
    case "ArrowRight":
      return go(order[Math.min(index + 1, order.length - 1)]);
    case "ArrowLeft":
      return go(order[Math.max(index - 1, 0)]);
    case "ArrowDown":
      return go(framed ? beyond(map.arrangement, framed.node, 1) : order[0]);
    case "ArrowUp":
      return go(framed ? beyond(map.arrangement, framed.node, -1) : order[0]);
    case "Home":
      return go(order[0]);
    case "End":
      return go(order.at(-1));
    case "]":
      return framed !== null && pods > 0 && go(framed.node, (framed.pod + 1) % pods);
    case "[":
      return framed !== null && pods > 0 && go(framed.node, (Math.max(framed.pod, 0) - 1 + pods) % pods);
    case "Enter":
      if (framed) on.open(framed);
      return framed !== null;
    case "+":
    case "=":
      return zoom(map, framed, KEY_ZOOM);
    case "-":
    case "−":
      return zoom(map, framed, 1 / KEY_ZOOM);
    case "0":
      map.showAll();
      return true;
    default:
      return false;
  }
}

function zoom(map, framed, factor) {
  map.zoomBy(factor);
  if (framed) map.reveal(framed.node);
  return true;
}
