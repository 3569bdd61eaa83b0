"""State that must outlive a restart, spread over a few ConfigMaps of the operator's namespace.

A ConfigMap holds 1 MiB and is rewritten whole: shards keep each object small and let busy workloads write without conflicts. What
an entry means is the business of its owner: `disruption.store` keeps disruptions, placement keeps its spot backoff.
"""

from __future__ import annotations

import hashlib

LABEL = "plimsoll.dev/memory"  # its value says whose entries a ConfigMap holds
SHARDS = 16


def shard_name(kind: str, identity: str) -> str:
    """The name of the ConfigMap that holds the entry of `identity`, such as a workload's UID."""
    return f"plimsoll-{kind}-{hashlib.sha256(identity.encode()).digest()[0] % SHARDS:x}"
