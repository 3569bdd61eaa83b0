"""Placement: each replica of a workload runs on spot or on-demand capacity, by the workload's annotations.

`spec` parses the annotations, `target` computes the split, `admission` assigns a class to each new pod, `rebalance` moves running
replicas, `spot_backoff` handles shortages, and `controller` turns all of it into a decision.
"""
