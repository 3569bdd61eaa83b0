"""Deletion cost: values for the annotation `controller.kubernetes.io/pod-deletion-cost`, so that a scale-down keeps zones even.

`spec` parses the user's annotations, `values` tells who wrote the value of a pod, an algorithm of `algorithms` computes the
values (`zone` is built in), `writes` limits how fast they change, and `controller` turns all of it into a decision.
`replicaset_ranking` is the deletion order of the ReplicaSet controller, and `order` measures what it does to zones.
"""
