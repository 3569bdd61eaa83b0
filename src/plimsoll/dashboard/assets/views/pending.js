// Pending pods: since when, why, which node is being created for them, and why each node group does not fit.
import { h, nameOf } from "../dom.js";
import { awaited, tried } from "../describe.js";
import { moment } from "../moments.js";
import { empty, link, matcher } from "../parts.js";
import { Records } from "../records.js";
import { counted } from "../words.js";

/** @type {import("./all.js").ViewEntry} */
export const pendingView = {
  name: "pending",
  title: "Pending",
  key: "p",
  badge: (snapshot) => snapshot.pending.size,
  enter(host, snapshot) {
    let matches = matcher("");
    const records = new Records({
      label: "Pending pods",
      sortBy: "since",
      columns: [
        { key: "name", title: "Pod", class: "wide", sort: (name) => name, cell: (name) => title(name) },
        { key: "since", title: "Pending since", sort: (_, one) => new Date(one.since ?? 0).getTime(), cell: (_, one) => (one.since ? moment(one.since) : "unknown") },
        { key: "why", title: "Why", class: "wide", sort: (_, one) => one.why, cell: (_, one) => h("div", { class: "reasons" }, one.awaits && h("span", { class: "awaits" }, "waits for ", awaited(one.awaits)), h("span", {}, one.why), attempts(one)) },
      ],
      keep: (name, one) => matches(name, one.why, one.awaits?.node, one.awaits?.group, ...one.tried.map((each) => `${each.group} ${each.why}`)),
      nothing: (filtered) =>
        filtered
          ? empty("No pending pod matches", "Clear the filter (Esc).")
          : empty("No pod waits for a node", "Every pod that wants a node has one. Pods that cannot be placed appear here with the reason, and with the result of each node group."),
    });
    host.append(h("div", { class: "bar-above" }, h("h1", {}, "Pending pods")), records.element);
    return {
      update: (changes) => (changes.whole || changes.pending.size > 0) && records.show(snapshot.pending),
      filter(text) {
        matches = matcher(text);
        records.show(snapshot.pending);
      },
      leave() {},
    };
  },
};

function title(/** @type {string} */ name) {
  const [namespace, pod] = name.split("/");
  return h("div", { class: "titled" }, link(`pod/${name}`, nameOf(pod ?? name)), h("span", { class: "muted" }, "in ", nameOf(namespace)));
}

function attempts(/** @type {import("../snapshot.js").Pending} */ one) {
  return one.tried.length > 0 && h("details", {}, h("summary", {}, `${counted(one.tried.length, "place")} tried`), tried(one.tried));
}
