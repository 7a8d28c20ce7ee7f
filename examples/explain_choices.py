"""Why a part was kept, split or dropped: the similarity of every node and its outcome."""

from __future__ import annotations

import canopy_rag as canopy
from canopy_rag.core.render import node_body

TEXT = (
    "An espresso machine presses hot water through fine grounds at nine bar. "
    "A double shot should run in 25 to 30 seconds. If it runs faster, grind finer. "
    "Rinse a paper filter with hot water. The brew should take three minutes."
)


def main() -> None:
    """Print the tree of one document, then the same rule on similarities made up by hand."""
    (explained,) = canopy.Compressor().explain("What pressure makes an espresso?", [TEXT])
    item = explained.found.item
    depth = {0: 0}
    for node in item.nodes:
        depth.update(dict.fromkeys(node.children, depth[node.index] + 1))
        outcome = explained.refinement.outcomes.get(node.index, "not visited")
        similarity = explained.similarities[node.index]
        words = " ".join(node_body(item, node.start, node.stop).split())
        print(f"{similarity:.3f} {outcome:<12}{'  ' * depth[node.index]}{words[:60]}")
    nodes = [
        canopy.Node(index=0, parent=None, children=(1, 2), start=0, stop=2),
        canopy.Node(index=1, parent=0, children=(), start=0, stop=1),
        canopy.Node(index=2, parent=0, children=(), start=1, stop=2),
    ]
    print("kept:", canopy.refine(nodes, [0.5, 0.6, 0.4]).kept)


if __name__ == "__main__":
    main()
