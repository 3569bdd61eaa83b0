// Managed workloads: current and target split, the next action, and what blocks it.
import { h, nameOf } from "../dom.js";
import { drift } from "../drift.js";
import { moment } from "../moments.js";
import { chip, choice, empty, link, matcher } from "../parts.js";
import { Records } from "../records.js";
import { shares } from "../shares.js";
import { counted } from "../words.js";

/** @typedef {import("../snapshot.js").Workload} Workload */

const size = (/** @type {Workload} */ one) => (one.current ? one.current.spot + one.current.onDemand : (one.replicas ?? 0));
/** Sort order: workloads that need attention first. */
const urgency = (/** @type {Workload} */ one) => (one.errors.length > 0 ? 3 : one.blockers.length > 0 ? 2 : drift(one) > 0 ? 1 : 0);

/** @type {Record<string, (one: Workload) => boolean>} */
const KEPT = {
  all: () => true,
  drifted: (one) => drift(one) > 0,
  blocked: (one) => one.blockers.length > 0,
  errors: (one) => one.errors.length > 0,
};

/** @type {import("./all.js").ViewEntry} */
export const workloadsView = {
  name: "workloads",
  title: "Workloads",
  key: "w",
  badge: (snapshot) => [...snapshot.workloads.values()].filter((one) => one.errors.length > 0).length,
  enter(host, snapshot) {
    let matches = matcher("");
    let kept = KEPT.all;
    const records = new Records({
      label: "Workloads",
      sortBy: "attention",
      columns: [
        { key: "name", title: "Workload", class: "wide", sort: (name) => name.split("/").slice(1).join("/"), cell: title },
        { key: "shares", title: "Now / target", sort: (_, one) => size(one), descending: true, cell: (_, one) => shares(one.current, one.target) },
        { key: "attention", title: "Next", sort: (_, one) => urgency(one), descending: true, cell: (_, one) => next(one) },
        { key: "why", title: "Why", class: "wide", cell: (_, one) => reasons(one) },
      ],
      keep: (name, one) => kept(one) && matches(name, one.action, one.why, ...one.blockers.map((blocker) => `${blocker.code} ${blocker.words}`)),
      nothing: (filtered) =>
        filtered
          ? empty("No workload matches", "Clear the filter (Esc), or choose “All”.")
          : empty("No workload is managed", h("span", {}, "Annotate a Deployment or StatefulSet with ", h("code", {}, "spotalis.io/enabled: \"true\""), " for its place, or ", h("code", {}, "pod-deletion-cost.lablabs.io/enabled: \"true\""), " for its deletion order. It appears here within moments.")),
    });
    const bar = h("div", { class: "bar-above" }, h("h1", {}, "Workloads"), choice("Which workloads", [["all", "All"], ["drifted", "Drifted"], ["blocked", "Blocked"], ["errors", "With errors"]], "all", (value) => {
      kept = KEPT[value];
      records.show(snapshot.workloads);
    }));
    host.append(bar, records.element);
    return {
      update: (changes) => (changes.whole || changes.workloads.size > 0) && records.show(snapshot.workloads),
      filter(text) {
        matches = matcher(text);
        records.show(snapshot.workloads);
      },
      leave() {},
    };
  },
};

function title(/** @type {string} */ name) {
  const [kind, namespace, short] = name.split("/");
  return h("div", { class: "titled" }, link(`workload/${name}`, nameOf(short ?? name)), h("span", { class: "muted" }, kind, " in ", nameOf(namespace ?? "")));
}

function next(/** @type {Workload} */ one) {
  const tone = one.errors.length > 0 ? "bad" : one.blockers.length > 0 ? "warn" : drift(one) > 0 ? "move" : "good";
  return h("span", { class: "next" }, chip(one.action || "none", tone), one.blockers.length > 0 && h("span", { class: "muted" }, counted(one.blockers.length, "blocker")));
}

function reasons(/** @type {Workload} */ one) {
  return h(
    "div",
    { class: "reasons" },
    h("span", {}, one.why),
    one.errors.map((error) => h("span", { class: "bad" }, error)),
    one.blockers.slice(0, 2).map((blocker) => h("span", { class: "muted" }, h("code", {}, blocker.code), " ", blocker.words, blocker.until && [", until ", moment(blocker.until)])),
  );
}
