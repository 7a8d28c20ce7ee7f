"""`canopy demo`: the tour through the sample corpus, without a network."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from canopy_rag.cli.options import Debug, Json, Offline, Quiet, settings
from canopy_rag.cli.output import Output

FLOOR = 9
"""Fewer known answers in the evidence than this mean that something is broken."""


def demo(
    folder: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="Where to put the sample files.")
    ] = Path("canopy-demo"),
    as_json: Json = False,
    quiet: Quiet = False,
    offline: Offline = False,
    debug: Debug = False,
) -> None:
    """Show everything on a small corpus that comes with canopy. Nothing is downloaded.

    Copies texts, tables, pictures and a video into a folder, indexes them, asks questions with
    known answers, draws a tree, and lets the small embedded chat model answer if it is installed.
    """
    from canopy_rag.cli import touring
    from canopy_rag.config import Config, IndexConfig

    output = Output(as_json=as_json, quiet=quiet)
    settings(offline=offline, output=output)
    started = time.perf_counter()
    touring.prepare(folder)
    config = replace(Config(), index=IndexConfig(path=str(folder / ".canopy")))
    index, report = touring.build(output, folder, config)
    asked = touring.ask_all(output, index)
    touring.draw_tree(output, index)
    model = touring.ask_model(output, config)
    n_found = sum(each.found for each in asked)
    if as_json:
        output.json(
            {
                "folder": str(folder),
                "index": report.to_dict(),
                "questions": [each.to_dict() for each in asked],
                "n_found": n_found,
                "floor": FLOOR,
                "model": model,
            }
        )
    if report.failed or n_found < FLOOR:
        output.error(f"{n_found} known answers are in the evidence; the demo expects {FLOOR}")
        raise typer.Exit(1)
    touring.show_end(output, folder, time.perf_counter() - started)
