"""Free ports on the loopback interface."""

from __future__ import annotations

import random
import socket

# Below the range from which Linux takes ports for outgoing connections: a component that is down for a moment must find
# its port free again when it comes back.
_LOWEST, _HIGHEST = 20_000, 32_000


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on at this moment, all different.

    Another process may still take one before its component does; the component then ends with "address already in
    use", and the start is tried again with others.
    """
    found: list[int] = []
    for port in random.sample(range(_LOWEST, _HIGHEST), _HIGHEST - _LOWEST):
        if len(found) == count:
            break
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
    if len(found) < count:
        raise RuntimeError(f"only {len(found)} of {count} ports between {_LOWEST} and {_HIGHEST} are free")
    return found
