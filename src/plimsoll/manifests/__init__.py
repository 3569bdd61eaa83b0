"""What an installation applies to a cluster, as plain objects. The chart renders the same ones."""
