// Drift: how far a workload's replicas are from their target.

/** Replicas on the wrong class or missing; 0 where the workload is not placed by class. @param {import("./snapshot.js").Workload} one */
export function drift(one) {
  if (!one.target || !one.current) return 0;
  return Math.max(Math.abs(one.target.spot - one.current.spot), Math.abs(one.target.onDemand - one.current.onDemand));
}

/** Workloads that have drifted, and by how many replicas in all. @param {import("./snapshot.js").Snapshot} snapshot */
export function driftOf(snapshot) {
  let workloads = 0;
  let replicas = 0;
  for (const one of snapshot.workloads.values()) {
    const amount = drift(one);
    workloads += amount > 0 ? 1 : 0;
    replicas += amount;
  }
  return { workloads, replicas };
}
