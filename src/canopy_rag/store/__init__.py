"""Items, trees and node vectors on disk, and search over them; LanceDB is the embedded default."""

from __future__ import annotations

from canopy_rag.store.lance import LanceStore
from canopy_rag.store.table import MemoryLimits
from canopy_rag.store.upgrading import upgrade
from canopy_rag.store.verifying import Verification

__all__ = ["LanceStore", "MemoryLimits", "Verification", "upgrade"]
