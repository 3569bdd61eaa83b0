"""The demonstration: a small cluster, and chapters of what happens to it."""
