"""The capacity class of a pod at its creation: what the admission webhook answers."""
