"""A folder of texts, tables, pictures and videos, and the parts of them that a query needs."""

from __future__ import annotations

import tempfile
from pathlib import Path

import canopy_rag as canopy
from canopy_rag.testing.corpus import FILES


def main() -> None:
    """Index the sample files, then search text, tables, pictures and videos alike."""
    with tempfile.TemporaryDirectory() as folder:
        index = canopy.Index.open(Path(folder, "my.canopy"), create=True)
        report = index.add(FILES)
        print(f"{report.indexed} files are {index.info()['items']['total']} items")
        for query in ("family ticket in July", "which satellite did the rocket carry"):
            evidence = index.search(query, k=3)
            print(f"\n{query}: {evidence.tokens} of {evidence.tokens_full} tokens")
            for fragment in evidence.fragments:
                text = " ".join((fragment.text or "").split())
                print(f"  [{fragment.n}] {fragment.source.uri}: {text[:70]}")


if __name__ == "__main__":
    main()
