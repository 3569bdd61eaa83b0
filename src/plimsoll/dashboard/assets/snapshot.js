// The page's copy of the snapshot, and how server messages update it.

/**
 * @typedef {"r" | "s" | "t" | "f"} PodState ready, starting, terminating, failed or finished
 * @typedef {[name: string, workload: string, state: PodState, misplacedFor?: "spot" | "on-demand"]} Pod
 * @typedef {{zone: string, group: string, class: "spot" | "on-demand", state: string, cpu: [number, number],
 *   memory: [number, number], pods: Pod[]}} ClusterNode
 * @typedef {{code: string, words: string, until?: string}} Blocker
 * @typedef {{spot: number, onDemand: number}} Split
 * @typedef {{target: Split | null, current: Split | null, action: string, why: string, blockers: Blocker[], errors: string[],
 *   deletionOrder: [pod: string, zone: string, node: string, cost: number | null][] | null, replicas?: number}} Workload
 * @typedef {[epochSeconds: number, current: number, ready: number, desired: number | null, price?: number | null]} Point
 * @typedef {{min: number | null, max: number | null, desired: number | null, current: number, ready: number, class?: string,
 *   pricePerHour?: number | null, offerings: string[], why: string, blockers: Blocker[], history: Point[], point?: Point}} Group
 * @typedef {{group: string, node: string, phase: string, orderedAt: string | null}} Awaited
 * @typedef {{since: string | null, why: string, awaits?: Awaited | null, tried: {group: string, why: string}[]}} Pending
 * @typedef {{device: string, container: string | null, state?: string}} Drive
 * @typedef {{drives: Drive[], ports: {from: number, to: number, container: string}[], waiting?: string[], problems?: string[]}} Allocation
 * @typedef {{at: string, controller: string, object: string, action: string, why: string, result: string}} Decision
 */

const KINDS = /** @type {const} */ (["nodes", "workloads", "groups", "pending", "allocations"]);
// The limits of the server: decisions, and one point per minute for a day.
const DECISIONS_KEPT = 500;
const POINTS_KEPT = 24 * 60;

/** Names of the records that a message changed; `whole`: it replaced everything. */
export class Changes {
  whole = false;
  nodes = new Set();
  workloads = new Set();
  groups = new Set();
  pending = new Set();
  allocations = new Set();
  decisions = 0;
}

export class Snapshot {
  constructor() {
    this.version = 0;
    /** @type {Date | null} */
    this.at = null;
    this.operator = { cluster: "", identity: "", leader: false, readOnly: false, controllers: /** @type {string[]} */ ([]), version: "" };
    /** @type {Map<string, ClusterNode>} */
    this.nodes = new Map();
    /** @type {Map<string, Workload>} */
    this.workloads = new Map();
    /** @type {Map<string, Group>} */
    this.groups = new Map();
    /** @type {Map<string, Pending>} */
    this.pending = new Map();
    /** @type {Map<string, Allocation>} */
    this.allocations = new Map();
    /** @type {Decision[]} newest last */
    this.decisions = [];
  }

  /** Whether anything was ever received. */
  get known() {
    return this.at !== null;
  }

  /** Whether that controller runs in this operator. @param {string} controller */
  runs(controller) {
    return this.operator.controllers.includes(controller);
  }

  /** @param {any} message @param {Changes} changes what is already waiting to be shown */
  merge(message, changes) {
    if (message.whole) {
      for (const kind of KINDS) this[kind].clear();
      this.decisions = [];
      changes.whole = true;
    }
    this.version = message.version;
    this.at = new Date(message.at);
    if (message.operator) this.operator = message.operator;
    for (const kind of KINDS) {
      for (const [name, record] of Object.entries(message[kind] ?? {})) {
        changes[kind].add(name);
        if (record === null) this[kind].delete(name);
        else this[kind].set(name, kind === "groups" ? withHistory(this.groups.get(name), record) : record);
      }
    }
    const decided = message.decisions ?? [];
    changes.decisions += decided.length;
    this.decisions.push(...decided);
    if (this.decisions.length > DECISIONS_KEPT) this.decisions.splice(0, this.decisions.length - DECISIONS_KEPT);
  }
}

/** Histories are sent once and then grow by points. @param {Group | undefined} before @param {Group} record */
function withHistory(before, record) {
  const history = record.history ?? before?.history ?? [];
  if (record.point && history.at(-1)?.[0] !== record.point[0]) history.push(record.point);
  if (history.length > POINTS_KEPT) history.splice(0, history.length - POINTS_KEPT);
  return { ...record, history };
}
