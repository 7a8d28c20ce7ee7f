"""Adaptive-granularity evidence compression for multimodal RAG.

>>> import canopy_rag as canopy
>>> evidence = canopy.Compressor(encoder="hashing").compress("who?", ["Ada wrote it. It rained."])
>>> evidence.text
'Ada wrote it. It rained.'

Everything named here loads on first use, so that importing the package stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from canopy_rag.api import Canopy, Compressor, Index
    from canopy_rag.core.answer import Answer
    from canopy_rag.core.errors import CanopyError
    from canopy_rag.core.evidence import Evidence, Fragment
    from canopy_rag.core.refine import Refinement, refine
    from canopy_rag.core.types import Item, Node

_HOMES = {
    "Answer": "canopy_rag.core.answer",
    "Canopy": "canopy_rag.api",
    "CanopyError": "canopy_rag.core.errors",
    "Compressor": "canopy_rag.api",
    "Evidence": "canopy_rag.core.evidence",
    "Fragment": "canopy_rag.core.evidence",
    "Index": "canopy_rag.api",
    "Item": "canopy_rag.core.types",
    "Node": "canopy_rag.core.types",
    "Refinement": "canopy_rag.core.refine",
    "refine": "canopy_rag.core.refine",
}

__version__ = "0.1.0"
__all__ = [
    "Answer",
    "Canopy",
    "CanopyError",
    "Compressor",
    "Evidence",
    "Fragment",
    "Index",
    "Item",
    "Node",
    "Refinement",
    "__version__",
    "refine",
]


def __getattr__(name: str) -> Any:
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    # `refine` is also a module of core: fetch the object, then keep it here.
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
