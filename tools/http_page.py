"""The page of HTTP fields: every path and every field of its requests, from the OpenAPI schema."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from fastapi import FastAPI

import canopy_rag.server

_INTRODUCTION = """# HTTP fields

Every path of `canopy serve` and every field that it takes, from the schema that a running server
gives at `/openapi.json`. What they mean is told in [HTTP API](http-api.md); `/mcp` is in
[MCP](integrations/mcp.md). This page is made by `make docs`."""


def page() -> str:
    """Return the page."""
    app = FastAPI(title="canopy-rag", version="1")
    for module in pkgutil.iter_modules(canopy_rag.server.__path__):
        if module.name.startswith("routes_"):
            app.include_router(importlib.import_module(f"canopy_rag.server.{module.name}").router)
    schema = app.openapi()
    operations = [
        (path, method, operation)
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]
    rows = [f"| `{method.upper()} {path}` | {one['summary']} |" for path, method, one in operations]
    parts = [_INTRODUCTION, "\n".join(["| request | gives |", "|---|---|", *rows])]
    for path, method, operation in operations:
        fields = [*_parameters(operation, schema), *_body(operation, schema)]
        if fields:
            head = ["| field | in | value | default |", "|---|---|---|---|"]
            parts += [f"## {method.upper()} {path}", operation["description"].strip()]
            parts.append("\n".join([*head, *fields]))
    return "\n\n".join(parts) + "\n"


def _parameters(operation: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    return [
        _row(one["name"], one["in"], one["schema"], schema, required=one.get("required", False))
        for one in operation.get("parameters", [])
    ]


def _body(operation: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    content = operation.get("requestBody", {}).get("content", {})
    body = _resolved(content.get("application/json", {}).get("schema", {}), schema)
    required = body.get("required", [])
    return [
        _row(name, "body", one, schema, required=name in required)
        for name, one in body.get("properties", {}).items()
    ]


def _row(
    name: str, place: str, one: dict[str, Any], schema: dict[str, Any], *, required: bool
) -> str:
    default = one.get("default")
    said = "required" if required else "" if default is None else f"`{str(default).lower()}`"
    return f"| `{name}` | {place} | {_value(one, schema)} | {said} |"


def _resolved(one: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in one:
        return one
    found: dict[str, Any] = schema["components"]["schemas"][one["$ref"].rpartition("/")[2]]
    return found


def _value(one: dict[str, Any], schema: dict[str, Any]) -> str:
    """Return in words what a field takes."""
    choices = [each for each in one.get("anyOf", []) if each.get("type") != "null"]
    if choices:
        return " or ".join(dict.fromkeys(_value(each, schema) for each in choices))
    if "$ref" in one:
        below = ", ".join(f"`{name}`" for name in _resolved(one, schema).get("properties", {}))
        return f"object of {below}" if below else "object"
    if "enum" in one:
        return "one of " + ", ".join(f"`{each}`" for each in sorted(one["enum"]))
    if one.get("type") == "array":
        return f"list of {_value(one.get('items', {}), schema)}{_limits(one, 'Items', 'entries')}"
    names = {"string": "text", "integer": "whole number", "boolean": "true or false"}
    kind = one.get("type", "any JSON")
    return f"{names.get(kind, kind)}{_limits(one, 'Length', 'characters')}{_bounds(one)}"


def _limits(one: dict[str, Any], of: str, unit: str) -> str:
    most = one.get(f"max{of}")
    return "" if most is None else f", at most {most:,} {unit}"


def _bounds(one: dict[str, Any]) -> str:
    least, most = one.get("minimum"), one.get("maximum")
    if least is not None and most is not None:
        return f", {least:,.0f} to {most:,.0f}"
    return "" if least is None else f", at least {least:,.0f}"
