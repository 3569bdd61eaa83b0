"""Decides whether kube-scheduler would run a pod on a node, and which nodes to add or remove. Deterministic, no I/O.

Read in this order: `model` (inputs and results), `pod_requests` and `pod_equivalence` (what a pod requests, and which
pods are equivalent), `snapshot` (the cluster as arrays), `rules` (selectors, taints, ports), then the three entry
points `fits`, `pack` and `removal.removable`. `worker` runs the last two in a separate process.

The life of one plan: `pack` groups the pods to place by class and shape (`pod_groups`), builds a `PlanState` from the
snapshot, orders the groups (`placement_order`), places them (`group_placement`, `bulk_placement`), repairs broken
topology spread (`skew_violations`, `repair`), sizes the new nodes (`node_sizing`, `headroom` with `scheduler_model`)
and returns a `Packing`.
"""
