// A node or a pod in one sentence: for the status line below the map, which screen readers announce, and for the tooltip.
import { h, nameOf } from "../dom.js";
import { POD_STATES } from "../describe.js";
import { classChip } from "../parts.js";
import { bytes, cores, counted, percent } from "../words.js";

/** @param {string} name @param {import("../snapshot.js").ClusterNode} node @param {number} index of a pod, or -1 */
export function sentence(name, node, index) {
  const pod = node.pods[index];
  if (pod) {
    const misplaced = pod[3] ? `, should be on ${pod[3]}` : "";
    return `Pod ${pod[0]}${pod[1] ? ` of ${pod[1]}` : ""}: ${POD_STATES[pod[2]]}${misplaced}, ${index + 1} of ${node.pods.length} on ${name}`;
  }
  return [
    `Node ${name}: ${node.state}`,
    node.class,
    `zone ${node.zone || "unknown"}`,
    `group ${node.group || "none"}`,
    `CPU ${percent(...node.cpu)} requested`,
    `memory ${percent(...node.memory)}`,
    counted(node.pods.length, "pod"),
  ].join(", ");
}

/** The same as a tooltip. */
export function hint(/** @type {string} */ name, /** @type {import("../snapshot.js").ClusterNode} */ node, /** @type {number} */ index) {
  const pod = node.pods[index];
  return [
    pod && [
      h("p", { class: "first" }, nameOf(pod[0])),
      h("p", {}, POD_STATES[pod[2]], pod[3] && h("strong", { class: "warn" }, `, should be on ${pod[3]}`)),
      pod[1] && h("p", { class: "muted" }, nameOf(pod[1])),
    ],
    h("p", { class: pod ? "rule" : "first" }, nameOf(name)),
    h("p", {}, classChip(node.class), " ", node.state, " · ", nameOf(node.zone || "no zone"), " · ", nameOf(node.group || "no group")),
    h("p", { class: "muted" }, `CPU ${cores(node.cpu[0])} of ${cores(node.cpu[1])} · memory ${bytes(node.memory[0])} of ${bytes(node.memory[1])} · ${counted(node.pods.length, "pod")}`),
  ].flat();
}
