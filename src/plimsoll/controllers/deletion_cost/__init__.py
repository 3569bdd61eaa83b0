"""Which replica leaves first? Values for the annotation `controller.kubernetes.io/pod-deletion-cost`, so that a scale-down
keeps zones in balance.

`spec` reads what the user wrote, `values` whose value a pod carries, an algorithm of `algorithms` says what each pod should
carry (`zone` is the one that comes along), `pace` how fast that may change, and `controller` turns it into a decision.
`ranking` is the ReplicaSet controller's own order of deletion, and `balance` measures what that order does to zones.
"""
