"""Plimsoll keeps a cluster's capacity right and safe, and can say why.

The way through the house: `kube` observes, `deletion_cost` and its siblings decide, `act` writes, `operator` builds it all.
`docs/architecture.md` follows one pod from room to room.
"""

from importlib.metadata import version

__version__ = version("plimsoll-operator")
