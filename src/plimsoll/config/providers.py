"""Settings of the providers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, field

from plimsoll.config.section import NamespaceName, NonEmpty, ObjectName, Section, describe, span

QuantityText: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^(?!0+(\.0+)?\D*$)\d{1,15}(\.\d{1,9})?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$",
        title="a quantity above zero, such as 4, 500m or 16Gi",
        extra={"numbers": True},
    ),
]


class KwokOffering(Section, frozen=True):
    """A simulated node size."""

    id: NonEmpty
    cpu: QuantityText
    memory: QuantityText
    pods: Annotated[int, Meta(ge=1)] = 110  # the kubelet's own default
    price: Annotated[float, Meta(ge=0)] = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)


class Kwok(Section, frozen=True):
    """The provider `kwok`: nodes simulated by KWOK, for development clusters, demos and tests."""

    create_delay: Annotated[timedelta, span("Simulated time to create a node.", at_least="0s")] = timedelta(seconds=30)
    delete_delay: Annotated[timedelta, span("Simulated time to delete a node.", at_least="0s")] = timedelta(seconds=10)
    offerings: Annotated[
        tuple[KwokOffering, ...],
        describe(
            "Offerings: a list of sections with `id`, `cpu`, `memory`, and optionally `pods` (110), `price` per hour (0) and `labels` "
            "of the nodes."
        ),
    ] = (
        KwokOffering("small", cpu="2", memory="8Gi", price=0.05),
        KwokOffering("medium", cpu="4", memory="16Gi", price=0.1),
        KwokOffering("large", cpu="8", memory="32Gi", price=0.2),
    )


class Vpsie(Section, frozen=True):
    """The provider `vpsie`: virtual machines of VPSie."""

    secret_name: Annotated[
        ObjectName,
        describe(
            "The Secret with `clientId` and `clientSecret`, or with `token`; its `url` says where the API is, unless that is "
            "`https://api.vpsie.com/v2`. Read again when it changes."
        ),
    ] = "vpsie-secret"  # noqa: S105 - a name
    order: Annotated[
        Literal["servers", "cluster-nodes"],
        describe(
            "What to order. `servers`: virtual machines, which join the cluster by their own means. `cluster-nodes`: worker "
            "nodes of VPSie's managed Kubernetes, whose cluster a NodeGroup's `resourceIdentifier` names."
        ),
    ] = "servers"
    secret_namespace: Annotated[NamespaceName, describe("The namespace of that Secret.")] = "kube-system"  # noqa: S105


class Providers(Section, frozen=True):
    """Providers of the machines of node groups. A NodeGroup names its provider."""

    enabled: Annotated[
        tuple[NonEmpty, ...],
        describe(
            "Providers that node groups may name. Only these are started, and only these get permissions: `vpsie` to read its Secret, "
            "`kwok` to create and delete nodes."
        ),
    ] = ("vpsie",)
    settings: Annotated[
        tuple[NonEmpty, ...],
        describe(
            "Settings of third-party providers, each as `provider.key=value`; see the provider's documentation for its keys."
        ),
    ] = ()
    kwok: Kwok = Kwok()
    vpsie: Vpsie = Vpsie()
