"""Allocate drives and ports to WekaContainers. `status.allocations` is the only record of what a container holds."""
