"""A real Kubernetes control plane on this machine: etcd, kube-apiserver, controllers, scheduler and KWOK nodes.

The way through the files: `versions` says which Kubernetes, `binaries` finds or builds it, `cluster` starts it, `nodes`
puts fake nodes into it. `python -m tools.controlplane --help` is the command line; `tests/realcluster.py` the fixtures.

Nothing here imports Plimsoll: what judges the operator's client must not be that client.
"""
