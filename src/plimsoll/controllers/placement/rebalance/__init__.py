"""Moves of running replicas: which, when, and whether there is a place for the replacement."""
