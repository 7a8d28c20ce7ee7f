"""One JSON codec for all frozen records.

A record is an object of its fields; a field that holds its default is left out; a tuple is an
array; one of several record types carries its name under `"type"`. Decoders are compiled once per
type.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

from canopy_rag.core.errors import DataError

T = TypeVar("T")
Decoder = Callable[[Any], Any]


def encode(value: Any, *, tagged: bool = False) -> Any:
    """Return the JSON form of a record, or of a tuple, mapping or scalar holding records.

    Args:
        value: What to encode.
        tagged: Whether a record tells its type, as it must where its field has a union type.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        unions = _union_fields(type(value))
        body: dict[str, Any] = {"type": type(value).__name__} if tagged else {}
        for field in dataclasses.fields(value):
            content = getattr(value, field.name)
            if field.default is not dataclasses.MISSING and content == field.default:
                continue
            body[field.name] = encode(content, tagged=field.name in unions)
        return body
    if isinstance(value, (tuple, list)):
        return [encode(part, tagged=tagged) for part in value]
    if isinstance(value, dict):
        return {str(key): encode(part) for key, part in value.items()}
    return value


def decode(record_type: type[T], data: Any) -> T:
    """Return the record that `data`, as made by `encode` and read back from JSON, stands for.

    Raises:
        DataError: Naming the type and the field that does not fit.
    """
    result: T = _decoder(cast("Hashable", record_type))(data)
    return result


def dumps(value: Any) -> str:
    """Return a record as compact JSON; equal records give equal strings."""
    return json.dumps(encode(value), ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def loads(record_type: type[T], text: str) -> T:
    """Return the record written by `dumps`.

    Raises:
        DataError: If `text` is not JSON or does not fit the type.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"not JSON where a {record_type.__name__} belongs: {error}") from error
    return decode(record_type, data)


@functools.cache
def _hints(record_type: type) -> dict[str, Any]:
    return typing.get_type_hints(record_type)


@functools.cache
def _union_fields(record_type: type) -> frozenset[str]:
    """Return the fields whose type is a union of several record types."""
    return frozenset(
        name for name, hint in _hints(record_type).items() if len(_records_of(hint)) > 1
    )


def _records_of(hint: Any) -> tuple[type, ...]:
    if typing.get_origin(hint) not in (types.UnionType, typing.Union):
        return ()
    return tuple(
        arg
        for arg in typing.get_args(hint)
        if isinstance(arg, type) and dataclasses.is_dataclass(arg)
    )


@functools.cache
def _decoder(hint: Any) -> Decoder:
    if dataclasses.is_dataclass(hint):
        return _record_decoder(cast("type", hint))
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return _union_decoder(hint, args)
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        part = _decoder(args[0])
        if part is _same:
            return tuple
        return lambda data: tuple([part(each) for each in data])
    if origin is tuple:
        parts = [_decoder(arg) for arg in args]
        return lambda data: tuple([part(each) for part, each in zip(parts, data, strict=True)])
    return _same


def _same(data: Any) -> Any:
    return data


def _union_decoder(hint: Any, args: tuple[Any, ...]) -> Decoder:
    named = {record.__name__: _decoder(record) for record in _records_of(hint)}
    if len(named) > 1:

        def tagged(data: dict[str, Any]) -> Any:
            try:
                part = named[data["type"]]
            except KeyError as error:
                raise DataError(
                    f"expected one of {sorted(named)} under 'type': {data!r:.80}"
                ) from error
            return part({key: value for key, value in data.items() if key != "type"})

        return tagged
    inner = _decoder(next(arg for arg in args if arg is not type(None)))
    return lambda data: None if data is None else inner(data)


def _record_decoder(record_type: type) -> Decoder:
    parts = {name: _decoder(hint) for name, hint in _hints(record_type).items()}

    def record(data: Any) -> Any:
        try:
            return record_type(**{name: parts[name](value) for name, value in data.items()})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{data!r:.120} is not a {record_type.__name__}: {error}") from error

    return record
