"""Every store keeps the promises of its protocols."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from canopy_rag.store import LanceStore, MemoryLimits
from canopy_rag.testing.memory_store import MemoryStore
from canopy_rag.testing.s3 import S3Server
from canopy_rag.testing.store_contract import FINGERPRINT, StoreContract


class TestMemoryStore(StoreContract):
    def make(self, tmp_path: Path) -> MemoryStore:
        return MemoryStore(FINGERPRINT)


class LanceContract(StoreContract):
    """Vectors of items are stored in 16 bits, rows of nodes in 4."""

    item_tolerance = 1e-3
    node_tolerance = 0.1


class TestLanceStore(LanceContract):
    def make(self, tmp_path: Path) -> LanceStore:
        return LanceStore.create(tmp_path / "index", FINGERPRINT)


class TestLanceStoreOf8Bits(LanceContract):
    node_tolerance = 5e-3

    def make(self, tmp_path: Path) -> LanceStore:
        return LanceStore.create(tmp_path / "index", FINGERPRINT, vectors="int8")


class TestLanceStoreOf16Bits(LanceContract):
    node_tolerance = 1e-6

    def make(self, tmp_path: Path) -> LanceStore:
        return LanceStore.create(tmp_path / "index", FINGERPRINT, vectors="float16")


class TestLanceStoreThatSearchesOnDisk(LanceContract):
    def make(self, tmp_path: Path) -> LanceStore:
        LanceStore.create(tmp_path / "index", FINGERPRINT)
        return LanceStore.open(tmp_path / "index", limits=MemoryLimits(exact_bytes=0))


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    pytest.importorskip("flask_cors", reason="needs moto[s3] and flask, of the extra dev")
    with S3Server() as server:
        yield server


class TestLanceStoreInABucket(LanceContract):
    @pytest.fixture(autouse=True)
    def _server(self, s3: S3Server) -> None:
        self.server = s3

    def make(self, tmp_path: Path) -> LanceStore:
        address = f"{self.server.make_bucket()}/some folder/index"
        LanceStore.create(address, FINGERPRINT, storage_options=self.server.options)
        return LanceStore.open(address, storage_options=self.server.options)
