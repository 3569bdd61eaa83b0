"""Which drives and ports does a container hold? `WekaContainer.status.allocations` says it, and nothing else does."""
