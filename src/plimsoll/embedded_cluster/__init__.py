"""A Kubernetes cluster in memory: an API server, the controllers that matter, a scheduler, kubelets, and time as a value.

It judges the operator, so it knows nothing of it: of this project it imports only `kube` (types and codecs) and `scheduling`.
Read in this order: `api/storage` (objects and their history), `api/server` (a request and its answer), `cluster` (who works on
the objects), then one controller at a time.
"""
