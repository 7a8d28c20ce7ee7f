"""Indexes a folder in a process of its own; stops at a given point and waits to be killed.

Arguments: root of the checkout, folder of documents, folder or address of the index, point.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path


def main() -> None:
    checkout, docs, index, point = sys.argv[1:]
    sys.path.insert(0, checkout)
    from tests.unit.indexing import fakes

    from canopy_rag.indexing import IndexOptions, encoding, engine, index_files, writing
    from canopy_rag.store import LanceStore
    from canopy_rag.store.location import locate

    seen: Counter[str] = Counter()

    def pass_by(name: str) -> None:
        seen[name] += 1
        if f"{name}:{seen[name]}" == point:
            sys.stdout.write("there\n")
            sys.stdout.flush()
            sys.stdin.read()

    def parse(path, uri, note):
        pass_by("parse")
        yield from fakes.parse(path, uri, note)

    class Encoder(fakes.PickyEncoder):
        def encode_items(self, items):
            pass_by("encode")
            return super().encode_items(items)

    class Store(LanceStore):
        def replace(self, uris, entries):
            n_items = super().replace(uris, entries)
            pass_by("committed")
            return n_items

        def remove(self, uris):
            n_items = super().remove(uris)
            pass_by("removed")
            return n_items

        def compact(self):
            pass_by("compact")
            super().compact()
            pass_by("compacted")

    # Four lines of three nodes.
    encoding.GROUP_NODES = engine.GROUP_NODES = writing.GROUP_NODES = encoding.BATCH_NODES = 12
    encoder = Encoder()
    if not locate(index).has_index:
        Store.create(index, encoder.fingerprint)
    store = Store.open(index)
    index_files(
        [Path(docs)],
        folder=store.path,
        store=store,
        encoder=encoder,
        reader=fakes.SourceReader(
            parse=parse,
            supports=fakes.supports,
            companions=fakes.companions,
            is_companion=fakes.is_companion,
        ),
        settings="s",
        options=IndexOptions(prune=True),
    )


if __name__ == "__main__":
    main()
