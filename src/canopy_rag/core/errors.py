"""What can go wrong, as one tree.

```
CanopyError
├── ConfigError(ValueError)             a setting is wrong; says which and what is allowed
│   └── UnknownNameError                a name is not known; suggests the nearest one
├── MissingDependencyError(ImportError) an extra is not installed; names it
├── DataError(ValueError)
│   ├── IngestError                     a source file cannot be read; names file and place
│   ├── TreeError                       an invariant of a node tree is broken
│   └── StoreError                      the index is missing, corrupt, locked or another version's
└── ModelError(RuntimeError)
    ├── EncodeError                     an item could not be encoded; names it
    ├── LLMError                        a chat model failed; `.status`, `.retryable`
    └── OutputParseError                a structured reply would not parse; keeps `.raw`
```

Every message says what failed, on which value, and what to do about it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class CanopyError(Exception):
    """Root of every error that canopy raises on purpose."""


class ConfigError(CanopyError, ValueError):
    """A setting has a value that cannot work."""


class UnknownNameError(ConfigError):
    """A name is not one of the known ones.

    Args:
        kind: What was named, for example `encoder`.
        name: The unknown name.
        known: The names that exist.

    >>> raise UnknownNameError("encoder", "minilmm", ["minilm", "qwen3-vl"])
    Traceback (most recent call last):
        ...
    canopy_rag.core.errors.UnknownNameError: unknown encoder 'minilmm'. Did you mean 'minilm'? \
Known: minilm, qwen3-vl
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        super().__init__(f"unknown {kind} {name!r}.{hint} Known: {', '.join(names) or 'none'}")
        self.kind = kind
        self.name = name


class MissingDependencyError(CanopyError, ImportError):
    """A feature needs a package that is not installed; the message names the extra."""


class DataError(CanopyError, ValueError):
    """Input data is not what it should be."""


class IngestError(DataError):
    """A source file cannot be read.

    Args:
        path: The file, as the user named it.
        reason: What is wrong and what to do.
        place: Page, sheet, line or time inside the file, or None for all of it.
    """

    def __init__(self, path: str, reason: str, *, place: str | None = None) -> None:
        super().__init__(f"{path}{f' ({place})' if place else ''}: {reason}")
        self.path = path
        self.reason = reason if place is None else f"{place}: {reason}"
        self.place = place


class TreeError(DataError):
    """An invariant of a node tree is broken."""


class StoreError(DataError):
    """An index is missing, corrupt, locked, or was written by another version or encoder."""


class ModelError(CanopyError, RuntimeError):
    """A model failed."""


class EncodeError(ModelError):
    """An item or query could not be encoded; nothing is put in its place.

    Args:
        item_id: The item that failed.
        reason: What is wrong and what to do.
    """

    def __init__(self, item_id: str, reason: str) -> None:
        super().__init__(f"item {item_id!r}: {reason}")
        self.item_id = item_id


class LLMError(ModelError):
    """A chat model did not answer.

    Args:
        message: What failed and what to do.
        status: The HTTP status, or None without a reply.
        retryable: Whether the same call may succeed later.
    """

    def __init__(self, message: str, *, status: int | None = None, retryable: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.retryable = retryable


class OutputParseError(ModelError):
    """A structured reply of an LLM would not parse.

    Args:
        message: What was expected.
        raw: The reply as it came.
    """

    def __init__(self, message: str, *, raw: str) -> None:
        super().__init__(message)
        self.raw = raw
