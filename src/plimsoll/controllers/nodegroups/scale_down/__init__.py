"""Which nodes can be removed, and how a node is drained."""
