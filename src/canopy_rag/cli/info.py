"""`canopy info`: counts and sizes of an index."""

from __future__ import annotations

from canopy_rag.cli.options import Debug, IndexFolder, Json, Offline, Quiet, settings
from canopy_rag.cli.output import Output
from canopy_rag.cli.wording import size


def info(
    index: IndexFolder = None,
    as_json: Json = False,
    quiet: Quiet = False,
    offline: Offline = False,
    debug: Debug = False,
) -> None:
    """Show what an index holds: items by modality, nodes, size, encoder, format."""
    from rich.table import Table

    from canopy_rag.api import Index

    output = Output(as_json=as_json, quiet=quiet)
    config = settings(offline=offline, output=output, flags={"index.path": index})
    opened = Index.open(config=config)
    about = opened.info()
    if as_json:
        output.json(about)
        return
    table = Table.grid(padding=(0, 2))
    items = dict(about["items"])
    table.add_row("index", str(opened.path))
    table.add_row("items", f"{items.pop('total'):,}")
    for modality, n in items.items():
        table.add_row(f"  {modality}", f"{n:,}")
    table.add_row("nodes", f"{about['nodes']:,}")
    table.add_row("size", size(about["bytes"]))
    table.add_row("encoder", str(about["encoder"]))
    table.add_row("format", str(about["format_version"]))
    table.add_row("digest", str(about["digest"]))
    output.show(table)
    if not about["items"]["total"]:
        output.note("It is empty. Fill it with: canopy index FOLDER")
