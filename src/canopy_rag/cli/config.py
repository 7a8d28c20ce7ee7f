"""`canopy config`: every setting and where its value comes from."""

from __future__ import annotations

import os
from typing import Any

from canopy_rag.cli.options import Debug, Json, Quiet
from canopy_rag.cli.output import Output
from canopy_rag.config import DEFAULT, describe, load, variable

_KEYS = (
    "CANOPY_LLM_API_KEY",
    "CANOPY_ENCODER_API_KEY",
    "OPENAI_API_KEY",
    "CANOPY_SERVER_API_KEY",
)


def config(as_json: Json = False, quiet: Quiet = False, debug: Debug = False) -> None:
    """Show every setting, its value, and where the value comes from.

    A flag goes before an environment variable, that before canopy.toml in the working directory
    (or the file that CANOPY_CONFIG names), and that before the default.
    """
    output = Output(as_json=as_json, quiet=quiet)
    rows = load().rows()
    if as_json:
        output.json({"settings": [_as_dict(*row) for row in rows], "keys": _keys()})
        return
    from rich.text import Text

    from canopy_rag.cli.layout import columns

    lines = [(Text("setting", "bold"), Text("value", "bold"), Text("from", "bold"))]
    for key, value, origin in rows:
        style = "dim" if origin == DEFAULT else "green"
        lines.append((Text(key), Text(_shown(value)), Text(origin, style)))
    for name, state in _keys().items():
        origin = "environment" if state != "unset" else DEFAULT
        lines.append((Text(name), Text(state), Text(origin, "dim")))
    output.show(*columns(lines))
    output.note(
        f"Set one in the environment, as {variable('retrieval.k')}=5, or in canopy.toml:\n"
        "  [retrieval]\n  k = 5"
    )


def _shown(value: Any) -> str:
    """Return a value as canopy.toml has it; None is no value there."""
    if value is None:
        return "unset"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _as_dict(key: str, value: Any, origin: str) -> dict[str, Any]:
    return {
        "key": key,
        "value": value,
        "origin": origin,
        "variable": variable(key),
        "values": describe(key),
    }


def _keys() -> dict[str, str]:
    """Return which secrets are set, never what they are."""
    return {name: "****" if os.environ.get(name, "").strip() else "unset" for name in _KEYS}
