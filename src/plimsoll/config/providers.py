"""Where machines come from: what can be set about each provider."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, field

from plimsoll.config.section import NamespaceName, NonEmpty, ObjectName, Section, about, span

QuantityText: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^(?!0+(\.0+)?\D*$)\d{1,15}(\.\d{1,9})?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$",
        title="a quantity above zero, such as 4, 500m or 16Gi",
        extra={"numbers": True},
    ),
]


class KwokOffering(Section, frozen=True):
    """A size of node that KWOK pretends to sell."""

    id: NonEmpty
    cpu: QuantityText
    memory: QuantityText
    pods: Annotated[int, Meta(ge=1)] = 110  # the kubelet's own default
    price: Annotated[float, Meta(ge=0)] = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)


class Kwok(Section, frozen=True):
    """The provider `kwok`: nodes that KWOK keeps alive, for development clusters, demonstrations and tests."""

    create_delay: Annotated[timedelta, span("How long a node takes to appear once it is asked for.", at_least="0s")] = (
        timedelta(seconds=30)
    )
    delete_delay: Annotated[timedelta, span("How long a node takes to go once it is deleted.", at_least="0s")] = (
        timedelta(seconds=10)
    )
    offerings: Annotated[
        tuple[KwokOffering, ...],
        about(
            "What can be had: a list of sections, each with `id`, `cpu`, `memory`, and as you like `pods` (110), `price` an hour "
            "(0) and `labels` of its nodes."
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
        about(
            "The Secret with `clientId` and `clientSecret`, or with `token`; its `url` says where the API is, unless that is "
            "`https://api.vpsie.com/v2`. Read again when it changes."
        ),
    ] = "vpsie-secret"  # noqa: S105 - a name
    order: Annotated[
        Literal["servers", "cluster-nodes"],
        about(
            "What a machine is. `servers`: virtual machines, which join the cluster by their own means. `cluster-nodes`: worker "
            "nodes of VPSie's managed Kubernetes, whose cluster a NodeGroup's `resourceIdentifier` names."
        ),
    ] = "servers"
    secret_namespace: Annotated[NamespaceName, about("The namespace of that Secret.")] = "kube-system"  # noqa: S105


class Providers(Section, frozen=True):
    """Where the machines of node groups come from. A NodeGroup names its provider."""

    enabled: Annotated[
        tuple[NonEmpty, ...],
        about(
            "Which providers node groups may name. Only these are made, and only these have rights: `vpsie` to its Secret, `kwok` to "
            "make and remove nodes."
        ),
    ] = ("vpsie",)
    settings: Annotated[
        tuple[NonEmpty, ...],
        about(
            "Settings of providers that were installed beside ours, each as `provider.key=value`; what keys there are, their "
            "documentation says."
        ),
    ] = ()
    kwok: Kwok = Kwok()
    vpsie: Vpsie = Vpsie()
