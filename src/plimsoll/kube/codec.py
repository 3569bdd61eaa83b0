"""Encoding and decoding of Kubernetes objects as JSON."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.pod_fields import PodDecoder, note_unknown_fields
from plimsoll.kube.types.quantity import Quantity, parse_quantity

T = TypeVar("T")


def _decode_special(kind: type, value: Any) -> Any:
    if kind is Quantity:
        return parse_quantity(value if isinstance(value, str) else str(value))
    raise NotImplementedError(f"no decoder for {kind}")


def _encode_special(value: Any) -> Any:
    if isinstance(value, Quantity):
        return f"{value.milli}m" if value.milli % 1000 else str(value.milli // 1000)
    raise NotImplementedError(f"no encoder for {type(value)}")


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any] | PodDecoder:
    made = msgspec.json.Decoder(kind, dec_hook=_decode_special)
    if kind is Pod:
        return PodDecoder(made, "")
    if get_args(kind) == (Pod,):
        fields = getattr(get_origin(kind), "__struct_fields__", ())
        return PodDecoder(made, "object" if "object" in fields else "items")
    return made


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """The decoder of a type. Cached because building one costs far more than using it."""
    made: msgspec.json.Decoder[T] = _decoder(kind)  # type: ignore[arg-type, assignment]  # PodDecoder decodes likewise
    return made


def decode(data: bytes | memoryview | msgspec.Raw, kind: type[T]) -> T:
    return decoder(kind).decode(data)


def convert(value: Any, kind: type[T]) -> T:
    """Convert plain dicts and lists, as YAML yields them, to a typed object."""
    made: T = msgspec.convert(value, kind, dec_hook=_decode_special)
    if isinstance(made, Pod) and isinstance(value, dict):
        note_unknown_fields(made, value)
    return made


_encoder = msgspec.json.Encoder(enc_hook=_encode_special)


def encode(value: Any) -> bytes:
    return _encoder.encode(value)


def builtins(value: Any) -> Any:
    """Convert a typed object to plain dicts and lists, for YAML or a patch."""
    return msgspec.json.decode(_encoder.encode(value))


def micro_time(moment: datetime) -> str:
    """Format a UTC time as Kubernetes' MicroTime, which Leases and Events use: exactly six fractional digits."""
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
