"""What a setting may be: its type and bounds, and reading it from text."""

from __future__ import annotations

import dataclasses
import os
import types
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from canopy_rag.core.errors import ConfigError

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class Least:
    """Smallest allowed value, itself included."""

    value: float


@dataclass(frozen=True, slots=True)
class Above:
    """Bound below all allowed values, itself excluded."""

    value: float


def coerce(key: str, raw: Any, hint: Any, origin: str, *, from_text: bool) -> Any:
    """Return a value as its field's type.

    Args:
        key: `section.field`, for messages.
        raw: The value as given. A path becomes text, a whole number may stand for a float.
        hint: The field's annotation.
        origin: Where the value came from, for messages.
        from_text: Whether `raw` is text to be read as that type; `none` then unsets an optional
            field.

    Raises:
        ConfigError: If it is of another type or out of bounds.
    """
    plain, bounds, optional = _unpack(hint)
    if optional and from_text and raw.lower() == "none":
        return None
    value = _parse(raw, plain) if from_text else raw
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if plain is float and type(value) is int:
        value = float(value)
    problem = _problem(value, plain, bounds)
    if problem:
        raise ConfigError(f"{key} must be {problem}, got {raw!r} (from {origin})")
    return value


def check_section(section: Any) -> None:
    """Check the fields of a section.

    Raises:
        ConfigError: If one is of another type or out of bounds.
    """
    name = type(section).__name__.removesuffix("Config").lower()
    hints = get_type_hints(type(section), include_extras=True)
    for one in dataclasses.fields(section):
        value = getattr(section, one.name)
        plain, bounds, optional = _unpack(hints[one.name])
        if value is None and optional:
            continue
        if plain is float and type(value) is int:
            value = float(value)
        problem = _problem(value, plain, bounds)
        if problem:
            raise ConfigError(f"{name}.{one.name} must be {problem}, got {value!r}")


def _parse(text: str, plain: Any) -> Any:
    """Return `text` as `plain`, or unchanged when it does not read as one."""
    if plain is bool:
        lowered = text.lower()
        return True if lowered in _TRUE else False if lowered in _FALSE else text
    if plain in (int, float):
        try:
            return plain(text)
        except ValueError:
            return text
    return text


def _unpack(hint: Any) -> tuple[Any, tuple[Least | Above, ...], bool]:
    """Return the plain type or Literal, its bounds, and whether None is allowed."""
    if get_origin(hint) in (Union, types.UnionType):
        inner = next(one for one in get_args(hint) if one is not type(None))
        plain, bounds, _ = _unpack(inner)
        return plain, bounds, True
    if get_origin(hint) is Annotated:
        plain, *bounds_given = get_args(hint)
        return plain, tuple(bounds_given), False
    return hint, (), False


def _problem(value: Any, plain: Any, bounds: tuple[Least | Above, ...]) -> str | None:
    """Return what the value should have been, or None when it is fine."""
    if get_origin(plain) is Literal:
        allowed = get_args(plain)
        return None if value in allowed else f"one of {', '.join(map(repr, allowed))}"
    if type(value) is not plain:
        return {
            bool: "true or false",
            int: "a whole number",
            float: "a number",
            str: "text",
        }[plain]
    for bound in bounds:
        if isinstance(bound, Least) and not value >= bound.value:
            return f"at least {bound.value}"
        if isinstance(bound, Above) and not bound.value < value < float("inf"):
            return f"above {bound.value} and finite"
    return None
