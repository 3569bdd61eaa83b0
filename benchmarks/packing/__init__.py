"""K1, C1, C2 and C3: packing pods onto new nodes, and emptying nodes, beside the benchmarks of other autoscalers."""
