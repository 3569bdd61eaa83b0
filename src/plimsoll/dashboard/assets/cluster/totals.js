// Totals of the cluster.
import { fill, h } from "../dom.js";
import { driftOf } from "../drift.js";
import { bytes, cores, count, counted, percent } from "../words.js";

/** @param {import("../snapshot.js").Snapshot} snapshot */
export function totals(snapshot) {
  const sum = { nodes: 0, ready: 0, spotNodes: 0, pods: 0, starting: 0, ending: 0, misplaced: 0, cpu: [0, 0], memory: [0, 0] };
  for (const node of snapshot.nodes.values()) {
    sum.nodes += 1;
    if (node.state === "ready") sum.ready += 1;
    if (node.class === "spot") sum.spotNodes += 1;
    for (let index = 0; index < 2; index += 1) {
      sum.cpu[index] += node.cpu[index];
      sum.memory[index] += node.memory[index];
    }
    for (const pod of node.pods) {
      sum.pods += 1;
      if (pod[2] === "s") sum.starting += 1;
      else if (pod[2] === "t") sum.ending += 1;
      if (pod[3]) sum.misplaced += 1;
    }
  }
  return sum;
}

/** Drift is current ≠ target; a pod on a node of the other class is only one way to drift. */
function drifted(/** @type {ReturnType<typeof totals>} */ sum, /** @type {import("../snapshot.js").Snapshot} */ snapshot) {
  const { workloads, replicas } = driftOf(snapshot);
  if (workloads === 0 && sum.misplaced === 0) return total("Drifted", "0", snapshot.workloads.size > 0 ? "every workload is at its target" : "no workload is managed");
  const words = replicas > 0 ? `${counted(replicas, "replica")} to move` : `${counted(sum.misplaced, "pod")} on the other class`;
  return total("Drifted", count(Math.max(workloads, replicas > 0 ? 0 : 1)), h("a", { href: "#/workloads" }, words), "warn");
}

/** @param {HTMLElement} host @param {ReturnType<typeof totals>} sum @param {import("../snapshot.js").Snapshot} snapshot */
export function showTotals(host, sum, snapshot) {
  fill(
    host,
    total("Nodes", count(sum.nodes), sum.ready === sum.nodes ? "all ready" : `${count(sum.ready)} ready`, sum.ready === sum.nodes ? "" : "warn"),
    total("On spot", percent(sum.spotNodes, sum.nodes), `${count(sum.spotNodes)} of the nodes`),
    total("Pods", count(sum.pods), sum.starting + sum.ending > 0 ? `${count(sum.starting)} starting, ${count(sum.ending)} ending` : "none in motion"),
    total("CPU requested", percent(...sum.cpu), `${cores(sum.cpu[0])} of ${cores(sum.cpu[1])} cores`),
    total("Memory requested", percent(...sum.memory), `${bytes(sum.memory[0])} of ${bytes(sum.memory[1])}`),
    total("Pending", count(snapshot.pending.size), snapshot.pending.size > 0 ? h("a", { href: "#/pending" }, "see why") : "no pod waits", snapshot.pending.size > 0 ? "warn" : ""),
    drifted(sum, snapshot),
  );
}

function total(title, figure, hint, tone = "") {
  return h("div", { class: `total ${tone}` }, h("dt", {}, title), h("dd", {}, h("strong", {}, figure), h("span", { class: "muted" }, hint)));
}
