"""JSON to objects and back."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any, TypeVar

import msgspec

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
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, dec_hook=_decode_special)


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """The decoder of a type, made once: building one costs far more than using it."""
    made: msgspec.json.Decoder[T] = _decoder(kind)  # type: ignore[arg-type]  # a type is hashable; mypy doubts it of type[T]
    return made


def decode(data: bytes | memoryview | msgspec.Raw, kind: type[T]) -> T:
    return decoder(kind).decode(data)


def convert(value: Any, kind: type[T]) -> T:
    """A typed object from plain dicts and lists, as YAML gives them."""
    return msgspec.convert(value, kind, dec_hook=_decode_special)


_encoder = msgspec.json.Encoder(enc_hook=_encode_special)


def encode(value: Any) -> bytes:
    return _encoder.encode(value)


def builtins(value: Any) -> Any:
    """Plain dicts and lists as JSON has them, for YAML or a patch."""
    return msgspec.json.decode(_encoder.encode(value))


def micro_time(moment: datetime) -> str:
    """A moment in UTC as leases and events have it: with exactly six digits after the second."""
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
