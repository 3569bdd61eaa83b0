"""May this node be removed? Each check returns None or the blocker that keeps the node; `registry` lists all of them."""
