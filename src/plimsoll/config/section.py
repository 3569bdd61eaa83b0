"""The base of all configuration sections, field descriptions, and the rules for Kubernetes names."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

# The API server's own rules for these names (RFC 1123); `title` is what an error message says is expected.
NamespaceName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$",
        title="the name of a namespace (lower-case letters, digits and -, at most 63)",
    ),
]
ObjectName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        title="the name of an object (lower-case letters, digits, - and ., at most 253)",
    ),
]
NonEmpty: TypeAlias = Annotated[str, Meta(min_length=1, title="a text that is not empty")]


class Section(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A group of keys. Its docstring introduces it in the generated reference."""


def describe(text: str) -> Meta:
    return Meta(description=text)


def span(text: str, *, at_least: str, whole_seconds: bool = False) -> Meta:
    """A duration; its lower bound is written like any other duration."""
    return Meta(description=text, extra={"at_least": at_least, "whole_seconds": whole_seconds})
