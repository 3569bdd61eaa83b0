"""Deciding about a thousand workloads that have drifted; and what scale-downs leave behind, by who orders the deletions."""
