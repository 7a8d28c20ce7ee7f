"""`canopy upgrade`: an index of an older version made into one of this."""

from __future__ import annotations

from canopy_rag.cli.options import (
    Debug,
    IndexFolder,
    Json,
    Offline,
    Quiet,
    Vectors,
    settings,
)
from canopy_rag.cli.output import Output
from canopy_rag.cli.wording import size


def upgrade(
    index: IndexFolder = None,
    vectors: Vectors = None,
    as_json: Json = False,
    quiet: Quiet = False,
    offline: Offline = False,
    debug: Debug = False,
) -> None:
    """Bring an index to the current format, or to smaller vectors.

    Nothing is encoded again. The new index is written beside the old one and takes its place in one
    step: it may be stopped at any time, and until then takes the room of both. Servers that have
    the index open are to be started anew.
    """
    from canopy_rag.pipeline.factory import locate_index, upgrade_index
    from canopy_rag.store import LanceStore

    output = Output(as_json=as_json, quiet=quiet)
    flags = {"index.path": index, "index.vectors": vectors}
    config = settings(offline=offline, output=output, flags=flags)
    changed = upgrade_index(config.index.path, config)
    about = LanceStore.open(locate_index(config.index.path, config)).info()
    if as_json:
        kept = ("items", "digest", "bytes", "format_version", "vectors")
        output.json({"upgraded": changed, **{name: about[name] for name in kept}})
        return
    state = "is now" if changed else "already was"
    output.show(
        f"{config.index.path} {state} of format {about['format_version']}, vectors of nodes in "
        f"{about['vectors']}: {about['items']['total']:,} items, {size(about['bytes'])}"
    )
