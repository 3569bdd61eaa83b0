// The details of one object from the snapshot, for the side panel, and the path of its explanation.
import { h, nameOf } from "./dom.js";
import { blockerList, chip, classChip, link, meter } from "./parts.js";
import { moment } from "./moments.js";
import { shares } from "./shares.js";
import { bytes, cores, count, counted, percent, price } from "./words.js";

/** @typedef {import("./snapshot.js").Snapshot} Snapshot */

/** The pod states by their letter in the snapshot. */
export const POD_STATES = { r: "ready", s: "starting", t: "terminating", f: "failed or finished" };

/** @param {string} subject @param {Snapshot} snapshot */
export function describe(subject, snapshot) {
  const [kind, ...rest] = subject.split("/");
  const name = rest.join("/");
  const render = { node: nodeDetails, workload: workloadDetails, group: groupDetails, pod: podDetails }[kind];
  if (!render) return { title: subject, facts: [gone()], question: null };
  return render(name, snapshot);
}

function nodeDetails(/** @type {string} */ name, /** @type {Snapshot} */ snapshot) {
  const node = snapshot.nodes.get(name);
  const question = `node/${encodeURIComponent(name)}`;
  const title = ["Node ", nameOf(name)];
  if (!node) return { title, facts: [gone()], question };
  const facts = [
    list([
      ["state", node.state],
      ["class", classChip(node.class)],
      ["zone", nameOf(node.zone)],
      ["group", node.group ? link(`group/${node.group}`) : "none"],
      ["CPU", meter(...node.cpu, `${cores(node.cpu[0])} of ${cores(node.cpu[1])} cores, ${percent(...node.cpu)}`)],
      ["memory", meter(...node.memory, `${bytes(node.memory[0])} of ${bytes(node.memory[1])}, ${percent(...node.memory)}`)],
    ]),
    h("h3", {}, counted(node.pods.length, "pod")),
    h("ul", { class: "pods" }, node.pods.map((pod) => podLine(pod))),
  ];
  return { title, facts, question };
}

function podLine(/** @type {import("./snapshot.js").Pod} */ [pod, workload, state, misplaced]) {
  const namespace = workload.split("/")[1];
  return h(
    "li",
    {},
    h("span", { class: `cell-${state}`, title: POD_STATES[state] }, POD_STATES[state]),
    pod.includes("/") || namespace ? link(`pod/${pod.includes("/") ? pod : `${namespace}/${pod}`}`, nameOf(pod)) : nameOf(pod),
    misplaced && chip(`should be on ${misplaced}`, "warn"),
    workload && h("span", { class: "of" }, link(`workload/${workload}`)),
  );
}

function workloadDetails(/** @type {string} */ name, /** @type {Snapshot} */ snapshot) {
  const workload = snapshot.workloads.get(name);
  const [kind, ...rest] = name.split("/");
  const question = `${kind.toLowerCase()}/${rest.map(encodeURIComponent).join("/")}`;
  const title = [`${kind} `, nameOf(rest.join("/"))];
  if (!workload) return { title, facts: [gone("It is not managed, or it was deleted.")], question };
  const order = workload.deletionOrder;
  const facts = [
    shares(workload.current, workload.target),
    list([
      ["next", chip(workload.action)],
      ["why", workload.why],
    ]),
    workload.errors.length > 0 && [h("h3", {}, "Errors"), h("ul", { class: "bad" }, workload.errors.map((error) => h("li", {}, error)))],
    workload.blockers.length > 0 && [h("h3", {}, "Blocked by"), blockerList(workload.blockers)],
    order && order.length > 0 && [h("h3", {}, "Deletion order on scale-down"), deletionOrder(order), (workload.replicas ?? 0) > order.length && h("p", { class: "muted" }, `and ${count(workload.replicas - order.length)} more; the explanation below lists all`)],
  ];
  return { title, facts, question };
}

function deletionOrder(/** @type {import("./snapshot.js").Workload["deletionOrder"]} */ order) {
  return h(
    "ol",
    { class: "leaving" },
    order.map(([pod, zone, node, cost]) =>
      h("li", {}, nameOf(pod), h("span", { class: "muted" }, nameOf(zone), " · ", node ? link(`node/${node}`) : "no node", cost !== null && ` · cost ${count(cost)}`)),
    ),
  );
}

function groupDetails(/** @type {string} */ name, /** @type {Snapshot} */ snapshot) {
  const group = snapshot.groups.get(name);
  const question = `nodegroup/${name.split("/").map(encodeURIComponent).join("/")}`;
  const title = ["Node group ", nameOf(name)];
  const members = [...snapshot.nodes].filter(([, node]) => node.group === name);
  const facts = [
    group
      ? list([
          ["now", sizes(group)],
          ["price", typeof group.pricePerHour === "number" && `${price(group.pricePerHour)} an hour, in the provider's currency`],
          ["why", group.why],
          ["offerings", group.offerings?.length ? h("span", { class: "chips" }, group.offerings.map((one) => chip(one))) : "none"],
        ])
      : gone("No node group of this name is managed here; its nodes carry the name as a label."),
    group && group.blockers.length > 0 && [h("h3", {}, "Blocked by"), blockerList(group.blockers)],
    h("h3", {}, counted(members.length, "node")),
    h("ul", { class: "pods" }, members.slice(0, 200).map(([node, record]) => h("li", {}, link(`node/${node}`), h("span", { class: "muted" }, record.state)))),
    members.length > 200 && h("p", { class: "muted" }, `and ${count(members.length - 200)} more: filter the table of nodes by this group`),
  ];
  // Groups of other autoscalers have no namespace and no NodeGroup to explain.
  return { title, facts, question: group && name.includes("/") ? question : null };
}

/** @param {import("./snapshot.js").Group} group */
export function sizes(group) {
  const wanted = group.desired === null ? "" : `, ${count(group.desired)} wanted`;
  const bounds = group.min === null || group.max === null ? "" : `, between ${count(group.min)} and ${count(group.max)}`;
  return `${counted(group.current, "node")}, ${count(group.ready)} ready${wanted}${bounds}`;
}

function podDetails(/** @type {string} */ name, /** @type {Snapshot} */ snapshot) {
  const question = `pod/${name.split("/").map(encodeURIComponent).join("/")}`;
  const title = ["Pod ", nameOf(name)];
  const pending = snapshot.pending.get(name);
  if (pending) {
    const facts = [
      list([
        ["pending since", pending.since ? moment(pending.since) : "unknown"],
        ["why", pending.why],
        ["waits for", pending.awaits ? awaited(pending.awaits) : false],
      ]),
      pending.tried.length > 0 && [h("h3", {}, "Tried node groups"), tried(pending.tried)],
    ];
    return { title, facts, question };
  }
  const short = name.split("/").at(-1);
  for (const [node, record] of snapshot.nodes) {
    const pod = record.pods.find(([one, workload]) => one === name || (one === short && workload.split("/")[1] === name.split("/")[0]));
    if (!pod) continue;
    const facts = [
      list([
        ["state", POD_STATES[pod[2]]],
        ["node", link(`node/${node}`)],
        ["class", h("span", {}, classChip(record.class), pod[3] && [" ", chip(`should be on ${pod[3]}`, "warn")])],
        ["zone", nameOf(record.zone)],
        ["workload", pod[1] ? link(`workload/${pod[1]}`) : "none"],
      ]),
    ];
    return { title, facts, question };
  }
  return { title, facts: [gone()], question };
}

/** The node that is being created for a pod, or that will be ordered. @param {import("./snapshot.js").Awaited} one */
export function awaited(one) {
  const group = link(`group/${one.group}`);
  if (!one.node) return h("span", {}, "a new node of group ", group, ", which is not ordered yet");
  const ordered = one.orderedAt && [", ordered ", moment(one.orderedAt, { clock: false })];
  return h("span", {}, "node ", link(`node/${one.node}`), " of group ", group, ordered, ", phase ", nameOf(one.phase));
}

/** @param {{group: string, why: string}[]} groups */
export function tried(groups) {
  return h("dl", { class: "fields" }, groups.map((one) => h("div", {}, h("dt", {}, nameOf(one.group)), h("dd", {}, one.why))));
}

function gone(words = "The snapshot does not contain this object.") {
  return h("p", { class: "muted" }, words);
}

function list(entries) {
  const present = entries.filter(([, value]) => value !== false);
  return h("dl", { class: "fields" }, present.map(([key, value]) => h("div", {}, h("dt", {}, key), h("dd", {}, value))));
}
