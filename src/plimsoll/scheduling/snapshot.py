"""The cluster as the packing engine sees it: nodes, the pods on them, and what volumes and namespaces say about both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from msgspec import Struct

from plimsoll.kube.types import KubeObject, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod


class Change(Struct, frozen=True):
    """One object before and after, as a store's listener is told: None before means new, None after means gone."""

    before: KubeObject | None
    after: KubeObject | None


class Snapshot:
    @classmethod
    def build(
        cls,
        nodes: Iterable[Node],
        pods: Iterable[Pod],
        *,
        namespaces: Iterable[Namespace] = (),
        claims: Iterable[PersistentVolumeClaim] = (),
        volumes: Iterable[PersistentVolume] = (),
    ) -> Snapshot:
        """Pods that are bound to one of `nodes` and not finished take their place; others are passed over."""
        raise NotImplementedError

    def apply(self, changes: Iterable[Change]) -> None:
        """Follow the store: nodes, pods, namespaces, claims and volumes that came, changed or went."""
        raise NotImplementedError

    def add(self, pod: Pod, node_name: str) -> None:
        """Put a pod on a node, whether or not any rule allows it."""
        raise NotImplementedError

    def remove(self, uid: str) -> None:
        """Take a pod off its node."""
        raise NotImplementedError

    @contextmanager
    def trial(self) -> Iterator[Snapshot]:
        """What is changed inside the block is taken back at its end."""
        yield self
