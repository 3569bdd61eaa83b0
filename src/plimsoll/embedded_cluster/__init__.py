"""A Kubernetes cluster in memory: API server, controllers, scheduler and kubelets, on any clock.

The operator is tested against it, so it imports none of the operator's controllers: only `kube` (types and codecs) and `scheduling`
(which nodes a pod fits). Read `api/storage` (objects and their history) first, then `api/server` (requests and responses), `cluster`
(which builds everything) and the controllers one at a time.
"""
