"""Methods by name: `canopy`, `flat:m=5`, `flat:m=5,encoder=f0`."""

from __future__ import annotations

import dataclasses
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, get_type_hints

from canopy_rag.baselines.base import Method, Parts, Spec
from canopy_rag.config.values import coerce
from canopy_rag.core.errors import ConfigError, UnknownNameError

_MODULES = (
    *("canopy", "vanilla", "flat", "recomp", "s2g_rag", "ircot", "universalrag"),
    *("langchain_filter", "llamaindex_optimizer", "llmlingua2"),
)
"""One method or family each, in the order of the paper's tables."""


def build(name: str, parts: Parts) -> Method:
    """Return a method.

    Args:
        name: As `methods` lists it, then `:key=value` with commas between, for other parameters
            than the default ones.
        parts: What it is built from.

    Raises:
        UnknownNameError: If there is no such method or parameter.
        ConfigError: If a parameter's value cannot work, or a part is missing.
        MissingDependencyError: If it needs a package that is not installed.
    """
    spec, settings = parse(name)
    return spec.build(full_name(spec, settings), parts, settings)


def methods() -> dict[str, str]:
    """Return the names of the methods that can run here, each with a line on what it does.

    Those whose packages are not installed are left out; `specs` has them too.
    """
    return {
        name: spec.summary
        for name, spec in specs().items()
        if all(find_spec(package) for package in spec.packages)
    }


@cache
def specs() -> dict[str, Spec]:
    """Return all methods by name; packages of peers are not loaded."""
    found = (
        spec
        for module in _MODULES
        for spec in import_module(f"canopy_rag.baselines.{module}").SPECS
    )
    return {spec.name: spec for spec in found}


def parse(name: str) -> tuple[Spec, Any]:
    """Return the method that a name means, and its settings.

    Raises:
        UnknownNameError: If there is no such method or parameter.
        ConfigError: If a parameter's value cannot work, or it is given twice.
    """
    head, colon, rest = name.strip().partition(":")
    known = specs()
    if head not in known:
        raise UnknownNameError("method", head, known)
    spec = known[head]
    hints = get_type_hints(spec.settings, include_extras=True)
    given: dict[str, Any] = {}
    for pair in rest.split(",") if colon else ():
        key, equals, value = (part.strip() for part in pair.partition("="))
        if key not in hints:
            raise UnknownNameError(f"parameter of method {head!r}", key, hints)
        if not equals or key in given:
            raise ConfigError(f"method {name!r}: write each parameter once, as {key}=VALUE")
        given[key] = coerce(f"{head}.{key}", value, hints[key], "method name", from_text=True)
    return spec, spec.settings(**given)


def full_name(spec: Spec, settings: Any) -> str:
    """Return a method's name with the parameters that are not the default ones, in their order."""
    default = spec.settings()
    pairs = [
        f"{one.name}={_text(getattr(settings, one.name))}"
        for one in dataclasses.fields(spec.settings)
        if getattr(settings, one.name) != getattr(default, one.name)
    ]
    return f"{spec.name}:{','.join(pairs)}" if pairs else spec.name


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
