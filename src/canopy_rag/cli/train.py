"""`canopy train`: an adapter from questions whose evidence is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from canopy_rag.cli.options import FLAG, Debug, Encoder, Json, Mode, Offline, Quiet, settings
from canopy_rag.cli.output import Output
from canopy_rag.core.errors import ConfigError

if TYPE_CHECKING:
    from canopy_rag.config import Config, EncoderConfig
    from canopy_rag.core.protocols import Encoder as Encode
    from canopy_rag.core.types import Item
    from canopy_rag.core.vectors import NodeVectors
    from canopy_rag.store import LanceStore
    from canopy_rag.training.data import Source
    from canopy_rag.training.loop import OnProgress, Progress
    from canopy_rag.training.recipe import Kind as KindOf
    from canopy_rag.training.recipe import Recipe
    from canopy_rag.training.run import Job

_RECIPE = "Recipe (unset: the preset's)"
LINES_EVERY = 25
"""Steps between two lines where stderr is no terminal."""

Places = Annotated[
    list[str],
    typer.Option(
        "--benchmark",
        "-b",
        metavar="NAME=PATH",
        help="A benchmark and the folder with its files, or jsonl=PATH for your own questions; "
        "may be given several times.",
        show_default=False,
    ),
]
Out = Annotated[
    Path,
    typer.Option("--out", metavar="DIR", help="Folder to write.", show_default=False),
]
Split = Annotated[
    Literal["train", "validation", "test"],
    typer.Option("--split", help="Which part of the questions is learned; never test."),
]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit",
        metavar="N",
        help="Most questions of each part, per benchmark.",
        show_default=False,
    ),
]
Kind = Annotated[
    Literal["lora", "full", "map"] | None,
    typer.Option(
        "--kind",
        help="lora: a low-rank adapter. full: all weights of a small encoder. map: a matrix on "
        "the vectors of any encoder, in seconds, without torch.",
        show_default="lora",
    ),
]
Preset = Annotated[
    Literal["paper", "minilm", "map"] | None,
    typer.Option(
        "--preset",
        help="Recipe to begin with. Default: minilm for minilm, map for maps, else the paper's.",
        show_default=False,
    ),
]
OfIndex = Annotated[
    str | None,
    typer.Option(
        "--index",
        metavar="DIR",
        help="For maps: an index whose vectors are learned from as they are. The gold of your own "
        "questions then names items by their ids in it.",
        show_default=False,
    ),
]
Fresh = Annotated[
    bool,
    typer.Option(
        "--fresh", metavar=FLAG, help="Begin anew instead of going on with an unfinished run."
    ),
]


def _recipe_option(name: str, help_text: str, metavar: str | None = None) -> Any:
    return typer.Option(
        name, help=help_text, metavar=metavar, rich_help_panel=_RECIPE, show_default=False
    )


Epochs = Annotated[int | None, _recipe_option("--epochs", "Passes over the instances.", "N")]
LearningRate = Annotated[
    float | None, _recipe_option("--learning-rate", "Of AdamW, at its highest.", "RATE")
]
Batch = Annotated[int | None, _recipe_option("--batch", "Instances or items of a step.", "N")]
Accumulate = Annotated[
    int | None,
    _recipe_option("--accumulate", "Parts that a batch is computed in, to save memory.", "N"),
]
Rank = Annotated[int | None, _recipe_option("--rank", "Of the low-rank adapter.", "N")]
Loss = Annotated[
    Literal["mean", "logsumexp"] | None,
    _recipe_option("--loss", "How the pairs of a decision are put together."),
]
Across = Annotated[
    float | None,
    _recipe_option(
        "--across", "Weight of comparisons between items, so that it finds them too.", "WEIGHT"
    ),
]
Neighbours = Annotated[
    int | None,
    _recipe_option("--neighbours", "Questions with like items that share a batch.", "N"),
]
Lexical = Annotated[
    bool | None,
    typer.Option(
        "--lexical/--no-lexical",
        help="Learn how much a question's own words count beside the vectors.",
        rich_help_panel=_RECIPE,
        show_default=False,
    ),
]
Precision = Annotated[
    Literal["fp32", "bf16"] | None, _recipe_option("--precision", "Of matrix products.")
]
Recompute = Annotated[
    bool,
    typer.Option(
        "--recompute",
        metavar=FLAG,
        help="Of qwen3-vl: compute inner states twice instead of keeping them, to save memory.",
        rich_help_panel=_RECIPE,
    ),
]
EvaluateEvery = Annotated[
    int | None,
    _recipe_option(
        "--evaluate-every", "Steps between looks at the validation part; unset: an epoch.", "N"
    ),
]
Patience = Annotated[
    int | None,
    _recipe_option("--patience", "Looks without an improvement before it ends.", "N"),
]
Sides = Annotated[
    Literal["query", "both"] | None,
    _recipe_option("--sides", "What a map changes: queries alone, or nodes too."),
]
Seed = Annotated[int | None, _recipe_option("--seed", "Of order, first values and dropout.", "N")]


def train(
    benchmark: Places,
    out: Out,
    encoder: Encoder = None,
    mode: Mode = None,
    kind: Kind = None,
    preset: Preset = None,
    index: OfIndex = None,
    split: Split = "train",
    limit: Limit = None,
    fresh: Fresh = False,
    epochs: Epochs = None,
    learning_rate: LearningRate = None,
    batch: Batch = None,
    accumulate: Accumulate = None,
    rank: Rank = None,
    loss: Loss = None,
    across: Across = None,
    neighbours: Neighbours = None,
    lexical: Lexical = None,
    precision: Precision = None,
    recompute: Recompute = False,
    evaluate_every: EvaluateEvery = None,
    patience: Patience = None,
    sides: Sides = None,
    seed: Seed = None,
    as_json: Json = False,
    quiet: Quiet = False,
    offline: Offline = False,
    debug: Debug = False,
) -> None:
    """Train an adapter on questions whose evidence is known; `--encoder NAME+DIR` then uses it.

    The train part is learned, the validation part decides which step is kept, the test part is
    never touched. A run that was interrupted goes on when the command is given again.
    """
    from canopy_rag.training.processes import is_first_process
    from canopy_rag.training.run import train as run

    output = Output(as_json=as_json, quiet=quiet or not is_first_process())
    flags = {"encoder.name": encoder, "encoder.mode": mode}
    config = settings(offline=offline, output=output, flags=flags)
    recipe = _recipe(
        config.encoder,
        kind,
        preset,
        {
            "epochs": epochs,
            "learning_rate": learning_rate,
            "batch": batch,
            "accumulate": accumulate,
            "rank": rank,
            "reduction": loss,
            "across": across,
            "neighbours": neighbours,
            "lexical": lexical,
            "precision": precision,
            "recompute": recompute or None,
            "evaluate_every": evaluate_every,
            "patience": patience,
            "sides": sides,
            "seed": seed,
        },
    )
    if limit is not None and limit < 1:
        raise ConfigError(f"--limit must be at least 1, got {limit}")
    if split == "test":
        raise ConfigError("--split test: the test part is for testing alone; train on `train`")
    if index is not None and recipe.kind != "map":
        raise ConfigError("--index is for maps, which learn from stored vectors; add --kind map")
    job = _job(benchmark, out, config, recipe, output, index=index, split=split, limit=limit)
    with _progress(output) as on_progress:
        body = run(replace(job, fresh=fresh), on_progress=on_progress, note=output.note)
    if not is_first_process():
        return
    if as_json:
        output.json({"out": str(out), **body})
        return
    _show(output, out, job.encoder.name, body)


def _recipe(
    encoder: EncoderConfig, kind: KindOf | None, preset: str | None, given: Mapping[str, Any]
) -> Recipe:
    from canopy_rag.training.recipe import preset as named
    from canopy_rag.training.run import default_recipe

    default = default_recipe(encoder.name, kind, encoder.mode)
    recipe = default if preset is None else named(preset)
    changes = {key: value for key, value in {"kind": kind, **given}.items() if value is not None}
    return replace(recipe, **changes)


def _job(
    places: Sequence[str],
    out: Path,
    config: Config,
    recipe: Recipe,
    output: Output,
    *,
    index: str | None,
    split: Literal["train", "validation"],
    limit: int | None,
) -> Job:
    from canopy_rag.datasets.registry import parse_place
    from canopy_rag.pipeline import files
    from canopy_rag.training.data import read_source
    from canopy_rag.training.folder import check_out
    from canopy_rag.training.run import Job

    check_out(out)
    opened = None if index is None else _opened(index, config)
    splitter = files.build_options(config.ingest).splitter
    sources = [
        read_source(
            found,
            folder,
            splitter,
            parts=("train", "validation"),
            limit=limit,
            index=None if opened is None else opened.items,
            portions=config.evaluate.portions,
        )
        for found, folder in map(parse_place, places)
    ]
    _tell(output, sources, split)
    return Job(
        encoder=config.encoder if opened is None else opened.settings,
        sources=sources,
        out=out,
        recipe=recipe,
        part=split,
        built=None if opened is None else opened.encoder,
        stored=None if opened is None else opened.vectors,
    )


@dataclass(frozen=True, slots=True)
class _Opened:
    """An index that a map is learned from."""

    store: LanceStore
    encoder: Encode
    settings: EncoderConfig

    def items(self, item_ids: Sequence[str]) -> dict[str, Item]:
        return {key: item for key, (item, _) in self.store.vectors(item_ids).items()}

    def vectors(self, item_ids: Sequence[str]) -> dict[str, NodeVectors]:
        return {key: nodes for key, (_, nodes) in self.store.vectors(item_ids).items()}


def _opened(place: str, config: Config) -> _Opened:
    from canopy_rag.pipeline import factory

    store, encoder = factory.open_store(place, config, create=False)
    settings = factory.encoder_settings(config, store.fingerprint, store.adapter)
    return _Opened(store, encoder, settings)


def _tell(output: Output, sources: Sequence[Source], split: str) -> None:
    for source in sources:
        n = {str(part): len(questions) for part, questions in source.parts.items()}
        judged = f", {n['validation']:,} to judge by" if split != "validation" else ""
        output.note(f"{source.loaded.name}: {n[split]:,} questions to learn from{judged}")


def _show(output: Output, out: Path, name: str, body: Mapping[str, Any]) -> None:
    results = body["results"]
    accuracy = results["decision_accuracy"]
    output.show(f"{results['steps']:,} steps in {results['seconds']:,.0f} s, written to {out}")
    if accuracy["after"] is not None:
        output.show(
            f"decision accuracy on validation  {accuracy['before']:.1%} before, "
            f"{accuracy['after']:.1%} after"
        )
        if len(accuracy["by_benchmark"]) > 1:
            for benchmark, each in accuracy["by_benchmark"].items():
                output.show(
                    f"  {benchmark}  {each['before']:.1%} before, {each['after']:.1%} after"
                )
        if accuracy["after"] <= accuracy["before"]:
            output.warn("it decides no better than before; more questions or another rate may help")
    if body["kind"] == "full":
        output.show(f"use it:  CANOPY_ENCODER_WEIGHTS={out} canopy ask ... --encoder {name}")
    else:
        output.show(f"use it:  --encoder {name}+{out}")


@contextmanager
def _progress(output: Output) -> Iterator[OnProgress | None]:
    """Show how far the training is: a bar with loss and accuracy, or now and then a line."""
    if output.quiet:
        yield None
        return
    if not output.err.is_terminal:
        yield _lines(output)
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("training"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.description}", style="dim"),
        TimeElapsedColumn(),
        TextColumn("left", style="dim"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=output.err, transient=True) as progress:
        shown = progress.add_task("", total=None)

        def advance(now: Any) -> None:
            progress.update(shown, description=_said(now), completed=now.step, total=now.n_steps)

        yield advance


def _lines(output: Output) -> OnProgress:
    seen: list[float | None] = [None]

    def advance(now: Progress) -> None:
        if now.step % LINES_EVERY == 0 or now.step == now.n_steps or now.accuracy != seen[0]:
            seen[0] = now.accuracy
            output.note(f"step {now.step:,} of {now.n_steps:,}  {_said(now)}")

    return advance


def _said(now: Progress) -> str:
    loss = "" if now.loss is None else f"loss {now.loss:.3f}"
    if len(now.parts) > 1:
        loss += f" ({', '.join(f'{name} {part:.3f}' for name, part in now.parts.items())})"
    accuracy = "" if now.accuracy is None else f"decides {now.accuracy:.1%}"
    return "  ".join(filter(None, (loss, accuracy)))
