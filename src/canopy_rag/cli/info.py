"""`canopy info`: counts and sizes of an index."""

from __future__ import annotations

from collections.abc import Mapping

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
    from rich.text import Text

    from canopy_rag.api import Index
    from canopy_rag.cli.layout import columns

    output = Output(as_json=as_json, quiet=quiet)
    config = settings(offline=offline, output=output, flags={"index.path": index})
    opened = Index.open(config=config)
    about = opened.info()
    if as_json:
        output.json(about)
        return
    items = dict(about["items"])
    rows = [("index", opened.place), ("items", f"{items.pop('total'):,}")]
    rows += [(f"  {modality}", f"{n:,}") for modality, n in items.items()]
    rows += [
        ("nodes", f"{about['nodes']:,}"),
        ("size", size(about["bytes"])),
        ("encoder", str(about["encoder"])),
        ("pixels of", _pixels(about["embedded"])),
        ("format", f"{about['format_version']}, vectors of nodes in {about['vectors']}"),
        ("digest", str(about["digest"])),
    ]
    output.show(*columns([(Text(name, "bold"), Text(value)) for name, value in rows]))
    if not about["items"]["total"]:
        output.note("It is empty. Fill it with: canopy index FOLDER")


def _pixels(embedded: Mapping[str, str]) -> str:
    """Say which modalities were embedded from their pixels."""
    seen = [modality for modality, how in embedded.items() if how == "media"]
    return ", ".join(seen) or "nothing: images and videos are found by their text"
