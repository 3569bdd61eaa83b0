"""VPSie: what its HTTP API promises, what it does not, and how its machines become ours all the same."""
