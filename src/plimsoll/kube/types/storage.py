"""Claims and volumes (core group), storage classes and CSI nodes: they restrict the nodes on which a pod can run."""

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


class CsiVolumeSource(Part, frozen=True, gc=False):
    driver: str = ""
    volume_handle: str = ""


class VolumeSpec(Part, frozen=True, gc=False):
    node_affinity: VolumeNodeAffinity | None = None
    storage_class_name: str = ""
    csi: CsiVolumeSource | None = None


class PersistentVolume(KubeObject, frozen=True, gc=False):
    spec: VolumeSpec = VolumeSpec()


class TopologyRequirement(Part, frozen=True, gc=False):
    key: str
    values: tuple[str, ...] = ()


class TopologyTerm(Part, frozen=True, gc=False):
    match_label_expressions: tuple[TopologyRequirement, ...] = ()


class StorageClass(KubeObject, frozen=True, gc=False):
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologyTerm, ...] = ()


class CsiAllocatable(Part, frozen=True, gc=False):
    count: int | None = None


class CsiDriver(Part, frozen=True, gc=False):
    name: str = ""
    allocatable: CsiAllocatable | None = None


class CsiNodeSpec(Part, frozen=True, gc=False):
    drivers: tuple[CsiDriver, ...] = ()


class CSINode(KubeObject, frozen=True, gc=False):
    """The CSI drivers of the node with the same name, and how many volumes each can attach there."""

    spec: CsiNodeSpec = CsiNodeSpec()
