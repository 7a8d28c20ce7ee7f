"""`canopy explain`: the trees of the hits, with what was kept, split and dropped."""

from __future__ import annotations

from typing import Annotated

import typer

from canopy_rag.cli.options import (
    Budget,
    Cap,
    Debug,
    Encoder,
    IndexFolder,
    Json,
    K,
    Offline,
    Quiet,
    Select,
    settings,
)
from canopy_rag.cli.output import Output


def explain(
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="What to look for.", show_default=False)
    ],
    index: IndexFolder = None,
    item: Annotated[
        str | None,
        typer.Option(
            "--item",
            metavar="ID",
            help="Only the item of this id, as search --json tells it.",
            show_default=False,
        ),
    ] = None,
    k: K = None,
    select: Select = None,
    budget: Budget = None,
    cap: Cap = None,
    encoder: Encoder = None,
    as_json: Json = False,
    quiet: Quiet = False,
    offline: Offline = False,
    debug: Debug = False,
) -> None:
    """Draw each hit's tree: the similarity of every node, and whether it was kept, split, dropped.

    With `--select set` the leaves that stand out among those of all hits are kept, and a node all
    of whose leaves are kept is kept whole. With `--select paper` a node is split into those of its
    children that are at least as similar to the query as the node itself, and one without such a
    child is kept whole. Nodes under a kept or a dropped one are only counted. A budget is applied
    after this, when evidence is written.
    """
    from canopy_rag.cli.drawing import drawings
    from canopy_rag.cli.opening import open_index

    output = Output(as_json=as_json, quiet=quiet)
    flags = {
        "index.path": index,
        "retrieval.k": k,
        "select.select": select,
        "select.budget": budget,
        "select.cap": cap,
        "encoder.name": encoder,
    }
    config = settings(offline=offline, output=output, flags=flags)
    explained = open_index(config, output, query).explain(query, item=item)
    if as_json:
        output.json([each.to_dict() for each in explained])
    elif not explained:
        output.show("Nothing was found: the index is empty.")
    else:
        output.show(*drawings(explained, output.width, unicode=output.unicode))
