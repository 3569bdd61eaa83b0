"""What it costs to hold every Pod, Node, ReplicaSet and Deployment of a cluster, beside controller-runtime's cache."""
