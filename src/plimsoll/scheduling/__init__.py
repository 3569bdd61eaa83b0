"""Would this pod run there? Requirements, resources and packing, as pure functions over a `Snapshot` of the cluster.

Read in this order: `model` (what is asked and answered), `requests` and `classes` (what a pod asks for, and which pods ask for
the same), `snapshot` (the cluster as arrays), `rules` (every rule of kube-scheduler that can say no), then the three questions:
`fits`, `pack` and `removable`. `worker` runs the last two in a process of its own.
"""
