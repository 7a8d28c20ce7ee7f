"""`canopy evaluate` and `canopy report`: methods on benchmarks, and the paper's tables of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from canopy_rag.cli.diagnose import Limit, MaxItems, Places, Split
from canopy_rag.cli.options import (
    FLAG,
    Budget,
    Cap,
    Critic,
    Debug,
    Encoder,
    Json,
    K,
    Llm,
    Mode,
    Model,
    Offline,
    Quiet,
    Repeat,
    Rounds,
    Select,
    settings,
)
from canopy_rag.cli.output import Output
from canopy_rag.core.errors import ConfigError

if TYPE_CHECKING:
    from canopy_rag.config import Config
    from canopy_rag.evaluation.evaluate import Advance, Evaluation
    from canopy_rag.evaluation.runner import Outcome, Running, Tell

MOST_FAILURES = 20
"""Failed questions that are told one by one; `failures.jsonl` has all."""

Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        metavar="NAME",
        help="A method, such as canopy or flat:m=5; may be given several times.",
        show_default=False,
    ),
]
RunOut = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="Folder of the run; a run there goes on.")
]
Pools = Annotated[
    Path | None,
    typer.Option(
        "--index",
        metavar="DIR",
        help="Folder of the encoded pools, to be shared by runs. Default: index in the run's "
        "folder.",
        show_default=False,
    ),
]
Cache = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        metavar="FILE",
        help="File of the model's replies. Default: beside the run's folder.",
        show_default=False,
    ),
]
NoCache = Annotated[
    bool, typer.Option("--no-cache", metavar=FLAG, help="Ask the model anew, and keep nothing.")
]
Runs = Annotated[
    list[Path], typer.Argument(metavar="RUN...", help="Folders that `canopy evaluate` made.")
]
ReportOut = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Where to. Default: the folder of the only run.",
        show_default=False,
    ),
]


def evaluate(
    benchmark: Places,
    out: RunOut,
    method: Methods = None,
    split: Split = "test",
    limit: Limit = None,
    max_items: MaxItems = None,
    llm: Llm = None,
    model: Model = None,
    encoder: Encoder = None,
    mode: Mode = None,
    k: K = None,
    rounds: Rounds = None,
    critic: Critic = None,
    repeat: Repeat = None,
    select: Select = None,
    budget: Budget = None,
    cap: Cap = None,
    index: Pools = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    as_json: Json = False,
    quiet: Quiet = False,
    offline: Offline = False,
    debug: Debug = False,
) -> None:
    """Run methods on benchmarks: answers, tokens, calls, latency, diagnostics, tables and plots.

    Every answer is kept as it comes: after a kill, the same command goes on. `--llm oracle:titles`
    lets one who knows the gold take the model's part: what the evidence is worth.
    """
    import asyncio

    from canopy_rag.datasets.registry import parse_place
    from canopy_rag.evaluation.evaluate import Evaluation, Plan
    from canopy_rag.evaluation.folder import RunFolder

    output = Output(as_json=as_json, quiet=quiet)
    flags = {
        "llm.name": llm,
        "llm.model": model,
        "encoder.name": encoder,
        "encoder.mode": mode,
        "retrieval.k": k,
        "retrieval.rounds": rounds,
        "retrieval.critic": critic,
        "select.repeat": repeat,
        "select.select": select,
        "select.budget": budget,
        "select.cap": cap,
    }
    config = settings(offline=offline, output=output, flags=flags)
    if limit is not None and limit < 1:
        raise ConfigError(f"--limit must be at least 1, got {limit}")
    if no_cache:
        config = replace(config, evaluate=replace(config.evaluate, cache=False))
    plan = Plan(
        places=[parse_place(place) for place in benchmark],
        config=config,
        methods=method or config.evaluate.methods.split(),
        part=split,
        limit=limit,
        max_items=max_items,
        index=index,
        cache=cache,
    )
    evaluation = Evaluation(plan=plan, folder=RunFolder(out))
    with _progress(output, evaluation) as (advance, tell):
        evaluation.advance, evaluation.tell = advance, tell
        outcome = asyncio.run(evaluation.run())
    _tell(output, evaluation, outcome, _report([out], out, config, output)[0])


def _tell(
    output: Output, evaluation: Evaluation, outcome: Outcome, metrics: dict[str, Any]
) -> None:
    """Write what a run did and found.

    Raises:
        typer.Exit: If questions got no answer.
    """
    out, asked = evaluation.folder.path, evaluation.llm
    if output.as_json:
        output.json(
            {
                "run": str(out),
                "answered": outcome.n_done,
                "answered_before": outcome.n_before,
                "failed": len(outcome.failures),
                "replies": 0 if asked is None else asked.n_asked,
                "replies_cached": 0 if asked is None else asked.n_cached,
                "spent": 0.0 if asked is None else asked.spent,
                "metrics": metrics,
            }
        )
    else:
        _show(output, metrics)
        output.show(f"report  {out / 'report.md'}")
    if outcome.failures:
        for failure in outcome.failures[:MOST_FAILURES]:
            output.error(failure)
        output.note(f"{len(outcome.failures):,} questions failed; run it again to ask them again")
        raise typer.Exit(1)


def report(
    run: Runs,
    out: ReportOut = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Make the paper's tables and figures of one run or several, beside the paper's numbers."""
    output = Output(as_json=as_json, quiet=quiet)
    if out is None and len(run) > 1:
        raise ConfigError("several runs need --out DIR for their report")
    config = settings(output=output)
    metrics = _report(run, out or run[0], config, output)
    if as_json:
        output.json({"report": str((out or run[0]) / "report.md"), "runs": metrics})
        return
    for each in metrics:
        _show(output, each)
    output.show(f"report  {(out or run[0]) / 'report.md'}")


def _report(
    runs: Sequence[Path], out: Path, config: Config, output: Output
) -> list[dict[str, Any]]:
    from canopy_rag.evaluation.report import write_report

    made = write_report(runs, out, resamples=config.evaluate.resamples)
    for path in made.files:
        output.note(f"wrote {path}")
    return made.metrics


def _show(output: Output, metrics: Mapping[str, Any]) -> None:
    """Write the headline of every method and benchmark."""
    from rich.table import Table

    if metrics["oracle"]:
        output.show("An oracle that knows the gold took the model's part: what evidence is worth.")
    for name, result in metrics["benchmarks"].items():
        figure = "accuracy" if result["metric"] == "accuracy" else "f1"
        table = Table(title=f"{name}, {result['n']:,} questions", title_justify="left", box=None)
        for column in ("method", figure, "95 %", "tokens", "calls", "s a question", "gold kept"):
            table.add_column(column, justify="left" if column == "method" else "right")
        for method, each in result["methods"].items():
            score, recall = each[figure], each["gold_leaf_recall"]
            seconds = each["amortized_latency_s"]
            table.add_row(
                method,
                f"{score['value'] * 100:.1f}",
                f"{score['low'] * 100:.1f} to {score['high'] * 100:.1f}",
                f"{each['evidence_tokens']['value']:,.0f}",
                f"{each['llm_calls']['value']:.2f}",
                "" if seconds is None else f"{seconds['value']:.3f}",
                "" if recall is None else f"{recall['value'] * 100:.1f}",
            )
        output.show(table, "")


@contextmanager
def _progress(output: Output, evaluation: Evaluation) -> Iterator[tuple[Advance, Tell | None]]:
    """Show how far the run is: bars on a terminal, a line per batch elsewhere."""
    if output.quiet:
        yield (lambda stage, done, total: None), None
        return
    if not output.err.is_terminal:
        yield (lambda stage, done, total: None), _lines(output, evaluation)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[running]}", style="dim"),
    )
    with Progress(*columns, console=output.err, transient=True) as progress:
        stage_bar = progress.add_task("reading", total=None, running="")
        bars: dict[tuple[str, str], Any] = {}

        def advance(stage: str, done: int, total: int) -> None:
            progress.update(stage_bar, description=stage, completed=done, total=total or None)

        def tell(running: Running) -> None:
            progress.update(stage_bar, visible=False)
            key = running.benchmark, running.method
            if key not in bars:
                name = f"{running.benchmark} {running.method}"
                bars[key] = progress.add_task(name, total=running.total, running="", visible=False)
            progress.update(
                bars[key],
                completed=running.n + running.failed,
                visible=running.n + running.failed < running.total,
                running=_running(running, evaluation),
            )

        yield advance, tell


def _lines(output: Output, evaluation: Evaluation) -> Tell:
    every = max(1, evaluation.plan.config.evaluate.batch)

    def tell(running: Running) -> None:
        n = running.n + running.failed
        if n and (n % every == 0 or n == running.total):
            output.note(
                f"{running.benchmark}, {running.method}: {n:,} of {running.total:,}, "
                f"{_running(running, evaluation)}"
            )

    return tell


def _running(running: Running, evaluation: Evaluation) -> str:
    """Return the scores so far and what the run has spent, in a few words."""
    n = max(1, running.n)
    parts = [
        f"{running.figure} {running.score / n:.3f}",
        f"{running.tokens / n:,.0f} tokens",
        f"{running.llm_calls / n:.2f} calls",
    ]
    if running.failed:
        parts.append(f"{running.failed:,} failed")
    llm = evaluation.llm
    if llm is not None:
        parts.append(f"{llm.n_asked:,} replies")
        if llm.n_cached:
            parts.append(f"{llm.n_cached:,} from the cache")
        if llm.spent:
            parts.append(f"spent {llm.spent:.2f}")
    return ", ".join(parts)
