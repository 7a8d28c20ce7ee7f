"""`canopy` in a process of its own that is to be killed: `child.py GROUP_NODES ARGUMENT...`.

Commits of few nodes, so that a small run has as many of them as a large one.
"""

from __future__ import annotations

import sys


def main() -> None:
    from canopy_rag.cli.main import main as canopy
    from canopy_rag.indexing import encoding, engine, ray_worker, writing

    nodes = int(sys.argv.pop(1))
    encoding.GROUP_NODES = engine.GROUP_NODES = writing.GROUP_NODES = nodes
    encoding.BATCH_NODES = ray_worker.BATCH_NODES = nodes
    canopy()


if __name__ == "__main__":
    main()
