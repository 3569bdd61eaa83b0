"""Ports on the loopback interface that stay ours for as long as a cluster lives."""

from __future__ import annotations

import random
import socket

# Below the range from which Linux takes ports for outgoing connections: a component that is down for a moment must find
# its port free again when it comes back.
_LOWEST, _HIGHEST = 20_000, 32_000


class ReservedPorts:
    """TCP ports that nothing listens on, and that no other cluster on this machine is given meanwhile.

    The reservation is a UDP socket on the same number, which nothing else here uses: it costs nothing, holds across
    processes and ends with ours. Without it a cluster could take another's etcd, on a port just chosen by both, for
    its own. A program that knows nothing of it may still take a port; the start is then tried again with others.
    """

    def __init__(self, count: int) -> None:
        self.numbers: list[int] = []
        self._reservations: list[socket.socket] = []
        for port in random.sample(range(_LOWEST, _HIGHEST), _HIGHEST - _LOWEST):
            if len(self.numbers) == count:
                return
            self._try(port)
        self.release()
        raise RuntimeError(f"there are no {count} free ports between {_LOWEST} and {_HIGHEST}")

    def release(self) -> None:
        """Let others have them."""
        for reservation in self._reservations:
            reservation.close()

    def _try(self, port: int) -> None:
        reservation = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            reservation.bind(("127.0.0.1", port))
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            reservation.close()
        else:
            self._reservations.append(reservation)
            self.numbers.append(port)
