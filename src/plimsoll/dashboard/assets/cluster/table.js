// The nodes as a table: for screen readers, for copying, and for sorting by utilization.
import { chip, classChip, empty, link, meter } from "../parts.js";
import { nameOf } from "../dom.js";
import { Records } from "../records.js";
import { bytes, cores, count, percent } from "../words.js";

/** @typedef {import("../snapshot.js").ClusterNode} ClusterNode */

const share = (/** @type {[number, number]} */ [part, whole]) => (whole > 0 ? part / whole : 0);

/** @param {(name: string, node: ClusterNode) => boolean} keep */
export function nodeTable(keep) {
  return new Records({
    label: "Nodes",
    sortBy: "name",
    columns: [
      { key: "name", title: "Node", class: "wide", sort: (name) => name, cell: (name) => link(`node/${name}`) },
      { key: "zone", title: "Zone", class: "short", sort: (_, node) => node.zone, cell: (_, node) => nameOf(node.zone || "–") },
      { key: "group", title: "Group", sort: (_, node) => node.group, cell: (_, node) => (node.group ? link(`group/${node.group}`) : "–") },
      { key: "class", title: "Class", sort: (_, node) => node.class, cell: (_, node) => classChip(node.class) },
      { key: "state", title: "State", sort: (_, node) => node.state, cell: (_, node) => chip(node.state, node.state === "ready" ? "good" : node.state === "not-ready" ? "bad" : "warn") },
      { key: "cpu", title: "CPU", sort: (_, node) => share(node.cpu), descending: true, cell: (_, node) => meter(...node.cpu, `${percent(...node.cpu)} of ${cores(node.cpu[1])}`) },
      { key: "memory", title: "Memory", sort: (_, node) => share(node.memory), descending: true, cell: (_, node) => meter(...node.memory, `${percent(...node.memory)} of ${bytes(node.memory[1])}`) },
      { key: "pods", title: "Pods", class: "number", sort: (_, node) => node.pods.length, descending: true, cell: (_, node) => count(node.pods.length) },
    ],
    keep,
    nothing: () => empty("No node matches", "Clear the filter (Esc)."),
  });
}
