"""Encoding and decoding of Kubernetes objects as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.pod_fields import PodDecoder, note_unknown_fields
from plimsoll.kube.types.quantity import Quantity, parse_quantity
from plimsoll.kube.types.times import parse_time

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


# msgspec names the place of an error: `[0]` is an item of a list, `[...]` a value of a mapping. All items are rewritten at once.
_BAD_TIME = re.compile(r"datetime.* - at `\$([^`]*)`")
_STEP = re.compile(r"\.(\w+)|\[(?:\d+|\.\.\.)\]")
_MOST_REPAIRS = 20  # fields with a time in one object


def decode_object(data: bytes | memoryview | msgspec.Raw, kind: type[T]) -> T:
    """Decode an object of the API server, including times in forms that msgspec does not read."""
    try:
        return decoder(kind).decode(data)
    except msgspec.ValidationError as error:
        if _BAD_TIME.search(str(error)) is None:
            raise
        document = msgspec.json.decode(data)
        failure = error
    for _ in range(_MOST_REPAIRS):
        bad = _BAD_TIME.search(str(failure))
        if bad is None or not _rewrite_times(document, [step[1] for step in _STEP.finditer(bad[1])]):
            raise failure
        try:
            return convert(document, kind)
        except msgspec.ValidationError as error:
            failure = error
    raise failure


def _rewrite_times(document: Any, path: Sequence[str | None]) -> bool:
    """Rewrite the times at a path so that msgspec reads them; False if there is none that can be rewritten."""
    if not path:
        return False
    step, *rest = path
    if step is None:
        keys: Iterable[Any] = range(len(document)) if isinstance(document, list) else list(document)
    else:
        keys = [step] if isinstance(document, dict) and step in document else []
    changed = False
    for key in keys:
        value = document[key]
        if rest:
            changed |= isinstance(value, dict | list) and _rewrite_times(value, rest)
        elif isinstance(value, str):
            with suppress(ValueError):
                rewritten = parse_time(value).isoformat()
                changed |= rewritten != value
                document[key] = rewritten
    return changed


def convert(value: Any, kind: type[T]) -> T:
    """Convert plain dicts and lists, as YAML yields them, to a typed object."""
    made: T = msgspec.convert(value, kind, dec_hook=_decode_special)
    if isinstance(made, Pod) and isinstance(value, dict):
        note_unknown_fields(made, value.get("spec") or {})
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
