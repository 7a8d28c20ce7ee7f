"""Import an optional package, or say how to install it."""

from __future__ import annotations

import importlib
from types import ModuleType

from canopy_rag.core.errors import MissingDependencyError


def require(module: str, *, extra: str, feature: str) -> ModuleType:
    """Import `module`.

    Args:
        module: Dotted name of the optional module.
        extra: The extra of `canopy-rag` that brings it.
        feature: What needs it, as the subject of a sentence.

    Raises:
        MissingDependencyError: If it is not installed. A package that is installed but broken
            raises its own error.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        raise MissingDependencyError(
            f"{feature} needs `{module}`, which is not installed. "
            f"Run: pip install 'canopy-rag[{extra}]'"
        ) from error
