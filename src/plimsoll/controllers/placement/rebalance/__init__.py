"""Moves of running replicas to the other class: which, when, and whether the replacement has a place."""
