"""Partial structs of the Kubernetes objects that this project reads, and the values in them: quantities, selectors, durations."""
