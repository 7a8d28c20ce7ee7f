"""What a setting may be: its type and bounds, and reading it from text."""

from __future__ import annotations

import dataclasses
import os
import re
import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from canopy_rag.core.errors import ConfigError

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})
_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


@dataclass(frozen=True, slots=True)
class Least:
    """Smallest allowed value, itself included."""

    value: int

    def holds(self, value: float) -> bool:
        """Return whether `value` is allowed."""
        return value >= self.value

    def __str__(self) -> str:
        return f"at least {self.value}"


@dataclass(frozen=True, slots=True)
class Above:
    """Bound below all allowed values, itself excluded; infinity is not allowed either."""

    value: int

    def holds(self, value: float) -> bool:
        """Return whether `value` is allowed."""
        return self.value < value < float("inf")

    def __str__(self) -> str:
        return f"above {self.value} and finite"


@dataclass(frozen=True, slots=True)
class NotEmpty:
    """Text of at least one character."""

    def holds(self, value: str) -> bool:
        """Return whether `value` is allowed."""
        return bool(value)

    def __str__(self) -> str:
        return "not empty"


Bound = Least | Above | NotEmpty


def describe_hint(hint: Any) -> str:
    """Return what a field takes, in words.

    >>> describe_hint(Annotated[int, Least(1)] | None)
    'a whole number, at least 1, or unset'
    """
    plain, bounds, optional = _unpack(hint)
    return _wording(plain, bounds) + (", or unset" if optional else "")


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


_SECRET_OPTION = re.compile(
    r"secret|token|password|account_key|access_key|customer_key|sas|service_account"
)


def options_of(key: str, text: str) -> dict[str, str]:
    """Return `name=value,...` as a mapping.

    Args:
        key: `section.field`, for messages.
        text: The setting; may be empty.

    Raises:
        ConfigError: If a part is no `name=value`, or its name is that of a key.

    >>> options_of("index.storage_options", "aws_region=eu-west-1, allow_http=true")
    {'aws_region': 'eu-west-1', 'allow_http': 'true'}
    """
    options: dict[str, str] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, equals, value = (each.strip() for each in part.partition("="))
        if _SECRET_OPTION.search(name.lower()):  # the value is not shown
            raise ConfigError(
                f"{key}: keys are read from the environment only; remove {name} and set its "
                f"variable, such as AWS_SECRET_ACCESS_KEY"
            )
        if not (name and equals and value):
            raise ConfigError(f"{key} must be name=value with commas between, got {part!r}")
        options[name.lower()] = value
    return options


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


def _unpack(hint: Any) -> tuple[Any, Sequence[Bound], bool]:
    """Return the plain type or Literal, its bounds, and whether None is allowed."""
    if get_origin(hint) in (Union, types.UnionType):
        inner = next(one for one in get_args(hint) if one is not type(None))
        plain, bounds, _ = _unpack(inner)
        return plain, bounds, True
    if get_origin(hint) is Annotated:
        plain, *bounds_given = get_args(hint)
        return plain, tuple(bounds_given), False
    return hint, (), False


def _problem(value: Any, plain: Any, bounds: Sequence[Bound]) -> str | None:
    """Return what the value should have been, or None when it is fine."""
    if get_origin(plain) is Literal:
        fine = value in get_args(plain)
    else:
        fine = type(value) is plain and all(bound.holds(value) for bound in bounds)
    return None if fine else _wording(plain, bounds)


def _wording(plain: Any, bounds: Sequence[Bound]) -> str:
    if get_origin(plain) is Literal:
        return f"one of {', '.join(get_args(plain))}"
    return ", ".join([_NAMES[plain], *map(str, bounds)])
