// What a person should look at, in order of harm: each with what is wrong, since when, and what to do.
import { drift } from "./drift.js";

// Failures older than this are history.
const FAILURES_KEPT_MS = 3_600_000;
const FAILED = ["failed", "invalid", "unknown"];

/**
 * @typedef {{rank: number, tone: "bad" | "warn" | "move", kind: string, subject: string, name: string, what: string, todo: string,
 *   since?: string | null, until?: string}} Attention
 * `subject` is what the details panel opens; empty: nothing.
 */

/** @param {import("./snapshot.js").Snapshot} snapshot @returns {Attention[]} */
export function attention(snapshot) {
  return [...failures(snapshot), ...nodes(snapshot), ...workloads(snapshot), ...allocations(snapshot), ...pending(snapshot)].sort(
    (left, right) => left.rank - right.rank || (left.name < right.name ? -1 : 1),
  );
}

/** What needs a person, without what the operator is already doing something about. @param {import("./snapshot.js").Snapshot} snapshot */
export const attentionCount = (snapshot) => attention(snapshot).filter((one) => one.tone !== "move").length;

function failures(/** @type {import("./snapshot.js").Snapshot} */ snapshot) {
  /** The latest failure of each object, unless something about it succeeded since. @type {Map<string, any>} */
  const latest = new Map();
  const after = (snapshot.at?.getTime() ?? 0) - FAILURES_KEPT_MS;
  for (const one of snapshot.decisions) {
    if (new Date(one.at).getTime() < after) continue;
    const result = one.result.split(/[ :]/, 1)[0];
    if (FAILED.includes(result)) latest.set(`${one.controller} ${one.object} ${one.action}`, one);
    else latest.delete(`${one.controller} ${one.object} ${one.action}`);
  }
  return [...latest.values()].filter((one) => !one.result.startsWith("invalid")).map((one) => ({
    rank: 1, tone: /** @type {const} */ ("bad"), kind: "failing", subject: subjectOf(one.object), name: one.object, since: one.at,
    what: `${one.action}: ${one.result}`, todo: "The operator retries. If it keeps failing, read its log for this object.",
  }));
}

function nodes(/** @type {import("./snapshot.js").Snapshot} */ snapshot) {
  return [...snapshot.nodes].filter(([, node]) => node.state === "not-ready").map(([name, node]) => ({
    rank: 2, tone: /** @type {const} */ ("bad"), kind: "node not ready", subject: `node/${name}`, name: `Node/${name}`,
    what: `${node.pods.length} pods on it may be unavailable`, todo: "Check the kubelet and the machine (kubectl describe node).",
  }));
}

function workloads(/** @type {import("./snapshot.js").Snapshot} */ snapshot) {
  const found = [];
  for (const [name, one] of snapshot.workloads) {
    const subject = `workload/${name}`;
    for (const error of one.errors) {
      found.push({ rank: 0, tone: /** @type {const} */ ("bad"), kind: "invalid", subject, name, what: error, todo: "Fix the annotation; until then the operator does not manage this workload." });
    }
    const amount = drift(one);
    if (amount === 0 || one.errors.length > 0) continue;
    const [blocker] = one.blockers;
    const away = `${amount} ${amount === 1 ? "replica is" : "replicas are"} on the wrong capacity class or missing`;
    if (blocker) {
      found.push({ rank: 4, tone: /** @type {const} */ ("warn"), kind: "blocked", subject, name, what: `${away}; ${blocker.words}`, until: blocker.until, todo: `Resolve ${blocker.code}, or wait${blocker.until ? "" : ": the operator tries again"}.` });
    } else {
      const todo = snapshot.operator.readOnly ? "The operator is read-only: it reports moves and makes none." : "Nothing: the operator moves pods step by step.";
      found.push({ rank: 5, tone: snapshot.operator.readOnly ? /** @type {const} */ ("warn") : /** @type {const} */ ("move"), kind: "drifted", subject, name, what: away, todo });
    }
  }
  return found;
}

function allocations(/** @type {import("./snapshot.js").Snapshot} */ snapshot) {
  return [...snapshot.allocations].flatMap(([name, one]) => (one.problems ?? []).map((problem) => ({
    rank: 2, tone: /** @type {const} */ ("bad"), kind: "allocation", subject: `node/${name}`, name: `Node/${name}`, what: problem, todo: "Open Allocations and filter by this node.",
  })));
}

function pending(/** @type {import("./snapshot.js").Snapshot} */ snapshot) {
  return [...snapshot.pending].map(([name, one]) => {
    const subject = `pod/${name}`;
    const shared = { kind: "unschedulable", subject, name: `Pod/${name}`, since: one.since, what: one.why };
    if (one.awaits) return { ...shared, rank: 6, tone: /** @type {const} */ ("move"), kind: "pending", todo: `Nothing: node ${one.awaits.node} of group ${one.awaits.group} is coming.` };
    return { ...shared, rank: 3, tone: /** @type {const} */ ("warn"), todo: "Add capacity or relax the pod's constraints; open it to see every node group's answer." };
  });
}

function subjectOf(/** @type {string} */ object) {
  const [kind, ...rest] = object.split("/");
  const name = rest.join("/");
  if (kind === "Node") return `node/${name.replace(/^\//, "")}`;
  if (kind === "Pod") return `pod/${name}`;
  if (kind === "NodeGroup") return `group/${name}`;
  return ["Deployment", "StatefulSet"].includes(kind) ? `workload/${object}` : "";
}
