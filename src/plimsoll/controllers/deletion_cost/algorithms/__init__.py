"""Algorithms that order the pods of a workload for deletion; plug-ins of the entry-point group plimsoll.deletion_cost."""
