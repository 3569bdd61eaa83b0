"""Nodes that KWOK simulates in place of machines."""
