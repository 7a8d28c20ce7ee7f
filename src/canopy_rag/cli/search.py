"""`canopy search`: one round of refined evidence, without a chat model."""

from __future__ import annotations

from typing import Annotated

import typer

from canopy_rag.cli.options import (
    Budget,
    Cap,
    Debug,
    Encoder,
    Full,
    IndexFolder,
    Json,
    K,
    Offline,
    Quiet,
    Select,
    settings,
)
from canopy_rag.cli.output import Output


def search(
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="What to look for.", show_default=False)
    ],
    index: IndexFolder = None,
    k: K = None,
    select: Select = None,
    budget: Budget = None,
    cap: Cap = None,
    encoder: Encoder = None,
    full: Full = False,
    as_json: Json = False,
    quiet: Quiet = False,
    offline: Offline = False,
    debug: Debug = False,
) -> None:
    """Show the parts of the indexed items that a query needs, and where they stand.

    One round, no chat model: the query's vector is the only model call.
    """
    from canopy_rag.cli.opening import open_index
    from canopy_rag.cli.showing import show_evidence

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
    evidence = open_index(config, output, query).search(query)
    if as_json:
        output.json(evidence.to_dict())
    else:
        show_evidence(output, evidence, full=full)
