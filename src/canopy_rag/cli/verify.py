"""`canopy verify`: whether an index is as it was written."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import typer

from canopy_rag.cli.options import Debug, IndexFolder, Json, Offline, Quiet, settings
from canopy_rag.cli.output import Output
from canopy_rag.config import Config


def verify(
    index: IndexFolder = None,
    as_json: Json = False,
    quiet: Quiet = False,
    offline: Offline = False,
    debug: Debug = False,
) -> None:
    """Read all of an index, and name what is not as it was written.

    Checksums of files, every item against the checksum of its content, every vector, one search.
    What is damaged can be made anew from the files; the command for it is printed, and the exit
    code is 1. Object storage keeps checksums by itself; there, files are not compared.
    """
    output = Output(as_json=as_json, quiet=quiet)
    config = settings(offline=offline, output=output, flags={"index.path": index})
    report = report_of(config)
    if as_json:
        output.json(report)
    elif report["sound"]:
        output.show(f"sound: {report['items']:,} items in {config.index.path}")
    else:
        for each in report["damaged"]:
            output.show(f"{each['file']}: {each['reason']}")
        output.note(f"Make it anew, and remove the old one: {report['rebuild']}")
    if not report["sound"]:
        raise typer.Exit(1)


def report_of(config: Config) -> dict[str, Any]:
    """Return what `canopy verify --json` prints.

    Raises:
        StoreError: If there is no index, or its place cannot be read.
    """
    from canopy_rag.core.errors import StoreError
    from canopy_rag.indexing import Roots
    from canopy_rag.pipeline.factory import locate_index
    from canopy_rag.store import LanceStore

    place = locate_index(config.index.path, config)
    if not place.has_index:
        place.read_meta()  # says that there is none
    try:
        found = LanceStore.open(place).verify()
        n_items = found.n_items
        damaged = [{"file": each.file, "reason": each.reason} for each in found.damaged]
    except StoreError as error:
        n_items, damaged = 0, [{"file": "index.json", "reason": str(error)}]
    try:
        Roots(place.local)
    except StoreError as error:
        damaged.append({"file": "roots.json", "reason": str(error)})
    return {
        "sound": not damaged,
        "items": n_items,
        "damaged": damaged,
        "rebuild": _rebuild(config, place.local) if damaged else None,
    }


def _rebuild(config: Config, notes: Path) -> str:
    """Return the command that makes the index anew from the folders it was made from."""
    from canopy_rag.core.errors import StoreError
    from canopy_rag.indexing import Roots

    try:
        roots = [shlex.quote(str(folder)) for folder in Roots(notes).folders()]
    except StoreError:
        roots = []
    place = shlex.quote(f"{config.index.path.rstrip('/')}-new")
    return f"canopy index {' '.join(roots) or 'PATH...'} --index {place}"
