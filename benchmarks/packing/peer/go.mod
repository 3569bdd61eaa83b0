module plimsoll.example/benchmarks/packing

go 1.26.0

require sigs.k8s.io/karpenter v1.14.1
