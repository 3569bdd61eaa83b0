"""May this node go? One file a reason why not; each has the shape `(candidate, situation) → None or Blocker`.

The codes are those that operators of clusters know from Cluster Autoscaler, wherever it has one.
"""
