"""Each benchmark is a module: `python -m benchmarks.NAME` measures this project beside a peer, on the same machine."""
