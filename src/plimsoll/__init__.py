"""Plimsoll keeps a cluster's capacity right and safe, and explains every decision.

The packages in the order in which data meets them:

- `kube` is Kubernetes as this project sees it: client, cache, types, work queue, leader election, events.
- `scheduling` answers whether a pod would run somewhere, how many nodes pods need, and which nodes can be removed.
- `disruption` answers whether a pod or a node may be disrupted now.
- `providers` are the sources of machines.
- `controllers` decide: placement, deletion_cost, nodegroups, allocation. A decision is data.
- `runtime` carries decisions out: reconciler, actuator, expectations, audit, metrics, and the operator that builds it all.
- `webhook` answers admission reviews; `explain`, `snapshot`, `dashboard` and `simulate` show what was or would be decided.
- `embedded_cluster` is a Kubernetes API with its controllers in memory; `cli` is the command `plimsoll`.

`docs/architecture.md` walks through four of the paths, file by file.
"""

from importlib.metadata import version

__version__ = version("plimsoll-operator")
