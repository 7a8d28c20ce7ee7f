"""Indexes a folder on Ray in a process of its own; after some commits, waits to be killed.

Arguments: root of the checkout, folder of documents, folder of the index, number of
commits.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path


def main() -> None:
    checkout, docs, index, n_commits = sys.argv[1:]
    sys.path.insert(0, checkout)
    from tests.unit.indexing import fakes

    from canopy_rag.indexing import IndexOptions, index_files, on_ray
    from canopy_rag.indexing.on_ray import RayEngine, RaySettings
    from canopy_rag.indexing.ray_worker import Recipe
    from canopy_rag.store import LanceStore

    class Store(LanceStore):
        n_left = int(n_commits)

        def replace(self, uris, entries):
            n_items = super().replace(uris, entries)
            self.n_left -= 1
            if self.n_left == 0:
                sys.stdout.write("there\n")
                sys.stdout.flush()
                sys.stdin.read()
            return n_items

    on_ray.GROUP_NODES = 6  # for each worker: together four lines of three nodes
    fingerprint = fakes.PickyEncoder().fingerprint
    Store.create(index, fingerprint)
    store = Store.open(index)
    recipe = Recipe(
        parse=fakes.READER.parse,
        make_encoder=fakes.PickyEncoder,
        fingerprint=fingerprint,
        packer=store.packer,
    )
    index_files(
        [Path(docs)],
        folder=store.path,
        store=store,
        encoder=fakes.PickyEncoder(),
        reader=fakes.READER,
        settings="s",
        options=IndexOptions(engine=partial(RayEngine, recipe, RaySettings(workers=2))),
    )


if __name__ == "__main__":
    main()
