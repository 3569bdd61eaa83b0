"""PersistentVolumeClaims and PersistentVolumes (core group): they restrict the nodes on which a pod can run."""

from __future__ import annotations

from plimsoll.kube.types.core import NodeSelector
from plimsoll.kube.types.meta import KubeObject, Part


class ClaimSpec(Part, frozen=True, gc=False):
    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] = ()


class ClaimStatus(Part, frozen=True, gc=False):
    phase: str = ""


class PersistentVolumeClaim(KubeObject, frozen=True, gc=False):
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class VolumeNodeAffinity(Part, frozen=True, gc=False):
    required: NodeSelector | None = None


class VolumeSpec(Part, frozen=True, gc=False):
    node_affinity: VolumeNodeAffinity | None = None
    storage_class_name: str = ""


class PersistentVolume(KubeObject, frozen=True, gc=False):
    spec: VolumeSpec = VolumeSpec()
