// Drives and ports of each node, and which container holds them.
import { h, nameOf } from "../dom.js";
import { empty, link, matcher } from "../parts.js";
import { Records } from "../records.js";
import { count } from "../words.js";

/** @typedef {import("../snapshot.js").Allocation} Allocation */

const held = (/** @type {Allocation} */ one) => one.drives.filter((drive) => drive.container !== null).length;
const ports = (/** @type {Allocation} */ one) => one.ports.reduce((sum, range) => sum + range.to - range.from + 1, 0);

const STATES = {
  committed: "Allocated to a container",
  proposed: "Proposed for a container, not committed yet",
  terminating: "Held by a container that is being deleted",
  free: "Free",
  blocked: "Blocked; it is not allocated",
};

/** @type {import("./all.js").ViewEntry} */
export const allocationsView = {
  name: "allocations",
  title: "Allocations",
  key: "a",
  badge: (snapshot) => [...snapshot.allocations.values()].filter((one) => (one.problems?.length ?? 0) > 0).length,
  enter(host, snapshot) {
    let matches = matcher("");
    const records = new Records({
      label: "Drives and ports by node",
      sortBy: "name",
      columns: [
        { key: "name", title: "Node", sort: (name) => name, cell: (name) => link(`node/${name}`) },
        { key: "used", title: "Drives held", class: "number", sort: (_, one) => held(one), descending: true, cell: (_, one) => `${count(held(one))} of ${count(one.drives.length)}` },
        { key: "drives", title: "Drives", class: "wide", cell: (_, one) => h("ul", { class: "drives" }, one.drives.map(drive)) },
        { key: "ports", title: "Ports", class: "wide", sort: (_, one) => ports(one), descending: true, cell: (_, one) => h("ul", { class: "ports" }, one.ports.map(range)) },
        { key: "trouble", title: "Waiting, trouble", sort: (_, one) => (one.problems?.length ?? 0) * 1000 + (one.waiting?.length ?? 0), descending: true, cell: (_, one) => trouble(one) },
      ],
      keep: (name, one) => matches(name, ...one.drives.map((each) => `${each.device} ${each.container ?? each.state ?? "free"}`), ...one.ports.map((each) => each.container), ...(one.waiting ?? []), ...(one.problems ?? [])),
      nothing: (filtered) => (filtered ? empty("No node matches", "Clear the filter (Esc).") : noAllocations(snapshot)),
    });
    host.append(h("div", { class: "bar-above" }, h("h1", {}, "Drives and ports"), legend()), records.element);
    return {
      update: (changes) => (changes.whole || changes.allocations.size > 0) && records.show(snapshot.allocations),
      filter(text) {
        matches = matcher(text);
        records.show(snapshot.allocations);
      },
      leave() {},
    };
  },
};

function drive(/** @type {import("../snapshot.js").Drive} */ one) {
  const state = one.container ? (one.state ?? "committed") : (one.state ?? "free");
  return h(
    "li",
    { class: `drive ${state}`, title: `${one.device}${one.container ? `, ${one.container}` : ""}: ${STATES[state] ?? state}` },
    nameOf(one.device),
    h("span", { class: "holder" }, one.container ? nameOf(one.container) : state),
  );
}

function range(/** @type {Allocation["ports"][number]} */ one) {
  const words = one.from === one.to ? `${one.from}` : `${one.from}–${one.to}`;
  return h("li", {}, h("code", {}, words), nameOf(one.container));
}

function trouble(/** @type {Allocation} */ one) {
  return h(
    "div",
    { class: "reasons" },
    (one.problems ?? []).map((words) => h("span", { class: "bad" }, words)),
    (one.waiting ?? []).map((name) => h("span", {}, nameOf(name), h("span", { class: "muted" }, " waits"))),
  );
}

function legend() {
  return h("ul", { class: "legend drives", "aria-label": "What the frames mean" }, Object.entries(STATES).map(([state, words]) => h("li", { class: `drive ${state}`, title: words }, state)));
}

function noAllocations(/** @type {import("../snapshot.js").Snapshot} */ snapshot) {
  if (snapshot.known && !snapshot.runs("allocation")) {
    return empty("Drives and ports are not given out here", h("span", {}, "Name the controller ", h("code", {}, "allocation"), " in ", h("code", {}, "controllers.enabled"), " of the operator's configuration."));
  }
  return empty("No drives or ports yet", "Nodes that announce drives, and containers that ask for them, appear here.");
}
