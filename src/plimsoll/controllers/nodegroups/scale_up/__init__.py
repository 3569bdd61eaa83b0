"""Scale-up: `scale_up` decides what is ordered; the other modules describe pods and nodes for it."""
