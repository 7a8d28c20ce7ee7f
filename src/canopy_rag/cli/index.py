"""`canopy index`: files and folders into items, trees and vectors."""

from __future__ import annotations

from typing import Annotated

import typer

from canopy_rag.cli.options import (
    FLAG,
    Debug,
    Encoder,
    IndexFolder,
    Json,
    Offline,
    Quiet,
    Vectors,
    settings,
)
from canopy_rag.cli.output import Output


def index(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Files and folders.", show_default=False)
    ],
    index: IndexFolder = None,
    encoder: Encoder = None,
    vectors: Vectors = None,
    engine: Annotated[
        str,
        typer.Option(
            "--engine",
            metavar="local|ray",
            help="Where files are parsed and encoded: here, or on a Ray cluster.",
        ),
    ] = "local",
    workers: Annotated[
        int,
        typer.Option(
            "--workers",
            min=1,
            metavar="N",
            help="Processes that read files; on Ray, that encode them, too.",
        ),
    ] = 1,
    prune: Annotated[
        bool, typer.Option("--prune", metavar=FLAG, help="Remove what is gone from the folders.")
    ] = False,
    include: Annotated[
        list[str] | None,
        typer.Option(
            "--include",
            metavar="PATTERN",
            help="Only files that match, as in .gitignore; may be repeated.",
            show_default=False,
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude",
            metavar="PATTERN",
            help="No files that match, as in .gitignore; may be repeated.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    offline: Offline = False,
    debug: Debug = False,
) -> None:
    """Index files and folders: unchanged files are skipped, changed ones replaced.

    Text, Markdown, HTML, PDF, Word, CSV, Excel, OpenDocument, Parquet, pictures, videos with
    subtitles, JSON Lines. Hidden and unsupported files and what .gitignore names are left alone.
    A file that cannot be read is listed with the reason, the rest goes on, and the exit code is 1.
    It may be stopped at any time; running it again goes on from there.
    """
    from canopy_rag.api import Index
    from canopy_rag.cli.progress import showing_progress
    from canopy_rag.cli.reporting import show_report
    from canopy_rag.core.errors import UnknownNameError
    from canopy_rag.pipeline.factory import ENGINES

    if engine not in ENGINES:
        raise UnknownNameError("engine", engine, ENGINES)
    output = Output(as_json=as_json, quiet=quiet)
    flags = {"index.path": index, "encoder.name": encoder, "index.vectors": vectors}
    config = settings(offline=offline, output=output, flags=flags)
    opened = Index.open(create=True, config=config)
    with showing_progress(output) as on_progress:
        report = opened.add(
            *paths,
            prune=prune,
            engine=engine,
            workers=workers,
            include=include or (),
            exclude=exclude or (),
            on_progress=on_progress,
        )
    if as_json:
        output.json(report.to_dict())
    show_report(output, report, opened)
    if report.failed:
        raise typer.Exit(1)
