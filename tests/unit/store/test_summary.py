"""What an index says of itself does not depend on the order of its rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from canopy_rag.store import LanceStore, summary
from canopy_rag.testing.memory_store import MemoryStore
from canopy_rag.testing.store_contract import FINGERPRINT, make_entry, make_item, unit


def test_the_digest_of_several_corpora_is_that_of_all_lines_sorted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "_LINES", 3)
    memory = MemoryStore(FINGERPRINT)
    store = LanceStore.create(tmp_path / "index", FINGERPRINT)
    for corpus in ("ab", "a", "a b", "a-b"):
        entries = [
            make_entry(make_item(f"{corpus} é{n}", n, corpus=corpus), unit(1)) for n in range(5)
        ]
        for each in (memory, store):
            each.replace({entry.item.source.uri for entry in entries}, entries)
    assert store.digest() == memory.digest()
    assert store.info()["nodes"] == 20 * len(entries[0].item.nodes)
    assert store.sources() == {
        f"{corpus} é{n}": 1 for corpus in ("ab", "a", "a b", "a-b") for n in range(5)
    }
