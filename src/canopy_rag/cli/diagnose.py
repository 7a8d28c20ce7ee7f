"""`canopy diagnose`: how well refinement decides on benchmarks, before a chat model is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from canopy_rag.cli.options import Debug, Encoder, Json, K, Mode, Offline, Quiet, settings
from canopy_rag.cli.output import Output
from canopy_rag.core.errors import ConfigError

if TYPE_CHECKING:
    from canopy_rag.evaluation.diagnose import Advance

Places = Annotated[
    list[str],
    typer.Option(
        "--benchmark",
        "-b",
        metavar="NAME=PATH",
        help="A benchmark and the folder with its official files; may be given several times.",
        show_default=False,
    ),
]
Split = Annotated[
    Literal["test", "validation", "train"],
    typer.Option("--split", help="Which part of the questions; choices belong to validation."),
]
Limit = Annotated[
    int | None,
    typer.Option("--limit", metavar="N", help="Most questions per benchmark.", show_default=False),
]
MaxItems = Annotated[
    int | None,
    typer.Option(
        "--max-items",
        metavar="N",
        help="Most items per benchmark besides the gold ones in the pool that is searched.",
        show_default=False,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="Write diagnosis.json and the plots here.", show_default=False
    ),
]


def diagnose(
    benchmark: Places,
    encoder: Encoder = None,
    mode: Mode = None,
    split: Split = "test",
    limit: Limit = None,
    max_items: MaxItems = None,
    k: K = None,
    out: Out = None,
    as_json: Json = False,
    quiet: Quiet = False,
    offline: Offline = False,
    debug: Debug = False,
) -> None:
    """Measure how well refinement decides on benchmarks; no chat model is asked.

    Decision accuracy, gold-leaf recall against tokens for refinement and for other selections, on
    gold items alone and over what is retrieved from the pooled items, with 95 % intervals. With
    `--out` also the plots of the paper's Figures 6 to 10.
    """
    from canopy_rag.datasets.registry import parse_place
    from canopy_rag.evaluation.diagnose import diagnose as run
    from canopy_rag.evaluation.tasks import load_task
    from canopy_rag.pipeline import factory, files

    output = Output(as_json=as_json, quiet=quiet)
    flags = {"encoder.name": encoder, "encoder.mode": mode, "retrieval.k": k}
    config = settings(offline=offline, output=output, flags=flags)
    if limit is not None and limit < 1:
        raise ConfigError(f"--limit must be at least 1, got {limit}")
    splitter = files.build_options(config.ingest).splitter
    tasks = [
        load_task(found, folder, splitter, part=split, limit=limit, max_items=max_items)
        for found, folder in map(parse_place, benchmark)
    ]
    for task in tasks:
        output.note(f"{task.name}: {len(task.questions):,} questions of the {split} part")
    model = factory.build_encoder(config.encoder)
    with _progress(output) as advance:
        diagnosis = run(
            tasks,
            model,
            k=config.retrieval.k,
            advance=advance,
        )
    body = diagnosis.to_dict() | {
        "encoder": config.encoder.name,
        "mode": model.fingerprint.mode,
        "k": config.retrieval.k,
        "split": split,
    }
    if out is not None:
        _write(out, body, output)
        from canopy_rag.evaluation.diagnosis_plots import plot_diagnosis

        for path in plot_diagnosis(diagnosis, out):
            output.note(f"drew {path}")
    if as_json:
        output.json(body)
        return
    for name, result in diagnosis.results.items():
        _show(output, name, result)


def _write(folder: Path, body: Mapping[str, Any], output: Output) -> None:
    import json

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "diagnosis.json"
    path.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    output.note(f"wrote {path}")


def _show(output: Output, name: str, result: Mapping[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    output.show(Text.assemble((name, "bold"), f"  {result['n']:,} questions"))
    decided, recall = result["decision_accuracy"], result["gold_leaf_recall"]
    output.show(f"  decision accuracy  {_share(decided)} of {decided['n']:,} decisions")
    output.show(f"  gold-leaf recall   {_share(recall)} where a gold item was found")
    output.show(f"  gold items found   {_share(result['retrieval']['recall'].popitem()[1])}")
    table = Table(box=None, padding=(0, 2, 0, 2), header_style="dim")
    for column in ("selection", "gold items: kept", "tokens", "retrieved: kept", "tokens"):
        table.add_column(column, justify="left" if column == "selection" else "right")
    points = {(point["setting"], point["method"]): point for point in result["curves"]}
    for method in dict.fromkeys(method for _, method in points):
        own, found = points["gold", method], points["retrieval", method]
        table.add_row(
            method,
            f"{own['recall']:.1%}",
            f"{own['tokens']:,.0f}",
            f"{found['recall']:.1%}",
            f"{found['tokens']:,.0f}",
        )
    output.show(table, "")


def _share(interval: Mapping[str, Any]) -> str:
    if interval["value"] is None:
        return "nothing to measure"
    return f"{interval['value']:.1%} ({interval['low']:.1%} to {interval['high']:.1%})"


@contextmanager
def _progress(output: Output) -> Iterator[Advance | None]:
    """Show how far the diagnosis is, on a terminal."""
    if output.quiet or not output.err.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=output.err, transient=True) as progress:
        shown = progress.add_task("reading", total=None)

        def advance(stage: str, done: int, total: int) -> None:
            progress.update(shown, description=stage, completed=done, total=total or None)

        yield advance
