"""Index and search in a process of its own: `elsewhere.py INDEX DOCS ENCODER CHARS`.

Queries come on stdin.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    place, docs, encoder, chars = sys.argv[1:]
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from canopy_rag.api import Index
    from canopy_rag.config import SelectConfig
    from canopy_rag.indexing import encoding
    from tests.property import invariants

    encoding.BATCH_NODES = 16
    settings = invariants.config(encoder, target_chars=int(chars))
    index = Index.open(place, create=True, config=settings)
    index.add(docs, workers=2)
    k = len(invariants.all_items(index))
    selection = SelectConfig(select="paper", min_tokens=0)
    told = []
    for query in json.load(sys.stdin):
        explained = index.explain(query, k=k, selection=selection)
        told.append(
            {
                "text": index.search(query, k=k, selection=selection).text,
                "nodes": {each.found.item.id: each.similarities.tolist() for each in explained},
            }
        )
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
