"""The page of methods: every method with its parameters, and its module's docstring."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

from canopy_rag.baselines.registry import specs
from canopy_rag.config.values import describe_hint

_INTRODUCTION = """# Methods

`canopy evaluate --method NAME` runs these over the same items with the same retrieval encoder, the
same reader and the same cap; they differ in what they do with what is found. `NAME:key=value,...`
sets parameters. What each does, and what differs from the original and why, is the docstring of its
module in `src/canopy_rag/baselines/`, from which `make docs` makes this page.

For all of them: the prompts are ours, since the originals' fit other models; the reader's answer is
short ([D14](paper-map.md)); a structured reply is held to a JSON schema and repaired once where it
cannot be understood (D15), and that call is counted; what had to give way is a fallback in the
trace. The contract that all pass is `canopy_rag.testing.method_contract`."""


def page(field_texts: Callable[[type[Any]], dict[str, str]]) -> str:
    """Return the page.

    Args:
        field_texts: From a dataclass to the text under each field.
    """
    rows = [f"| `{name}` | {spec.summary} |" for name, spec in specs().items()]
    parts = [_INTRODUCTION, "\n".join(["| method | in short |", "|---|---|", *rows])]
    for module in dict.fromkeys(spec.module for spec in specs().values()):
        own = [spec for spec in specs().values() if spec.module == module]
        names = ", ".join(f"`{spec.name}`" for spec in own)
        text = inspect.cleandoc(importlib.import_module(module).__doc__ or "")
        parts += [f"## {names}", text]
        if dataclasses.fields(own[0].settings):
            parts.append(_parameters(own[0].settings, field_texts))
    return "\n\n".join(parts) + "\n"


def _parameters(cls: type[Any], field_texts: Callable[[type[Any]], dict[str, str]]) -> str:
    hints, texts = get_type_hints(cls, include_extras=True), field_texts(cls)
    rows = ["| parameter | value | default | meaning |", "|---|---|---|---|"]
    for one in dataclasses.fields(cls):
        default = "unset" if one.default in (None, "") else f"`{str(one.default).lower()}`"
        cells = [f"`{one.name}`", describe_hint(hints[one.name]), default, texts[one.name]]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)
