"""Runs the real operator on the embedded cluster: `world` builds both, `run` plays a scenario, `invariants` checks it, `report` sums
it up, `demo` is the guided tour. Called by `cli.simulate`, `cli.demo` and tests."""
