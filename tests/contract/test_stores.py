"""Every store keeps the promises of its protocols."""

from __future__ import annotations

from pathlib import Path

from canopy_rag.store import LanceStore, MemoryLimits
from canopy_rag.testing.memory_store import MemoryStore
from canopy_rag.testing.store_contract import FINGERPRINT, StoreContract


class TestMemoryStore(StoreContract):
    def make(self, tmp_path: Path) -> MemoryStore:
        return MemoryStore(FINGERPRINT)


class TestLanceStore(StoreContract):
    def make(self, tmp_path: Path) -> LanceStore:
        return LanceStore.create(tmp_path / "index", FINGERPRINT)


class TestLanceStoreThatSearchesOnDisk(StoreContract):
    def make(self, tmp_path: Path) -> LanceStore:
        LanceStore.create(tmp_path / "index", FINGERPRINT)
        return LanceStore.open(tmp_path / "index", limits=MemoryLimits(exact_bytes=0))
