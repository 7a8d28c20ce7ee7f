"""From run folders to a report: Markdown, CSV, PNG and SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from canopy_rag.core.errors import ConfigError, DataError
from canopy_rag.evaluation.bootstrap import RESAMPLES
from canopy_rag.evaluation.folder import METRICS, RunFolder, write_json
from canopy_rag.evaluation.report.cases import cases
from canopy_rag.evaluation.report.figures import figures
from canopy_rag.evaluation.report.tables import Summary, tables
from canopy_rag.evaluation.results import Results, load
from canopy_rag.evaluation.summary import summarise

_FIGURES = {
    "figure-6": "Similarities relative to the root, gold and other regions",
    "figure-7": "Answer quality against evidence tokens",
    "figure-8": "Decision accuracy",
    "figure-9": "What refinement does with a node",
    "figure-10": "Items kept whole",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was written."""

    files: list[Path]
    metrics: list[dict[str, Any]]
    """`metrics.json` of each run, in order."""


def write_report(
    runs: Sequence[Path], out: Path, *, resamples: int = RESAMPLES, seed: int = 0
) -> Report:
    """Write the tables and figures of one run or several; `metrics.json` goes into each run.

    Args:
        runs: Folders that `canopy evaluate` made.
        out: Folder of the report; made when missing, files of the same name are replaced.
        resamples: Of the bootstrap.
        seed: Of the bootstrap.

    Raises:
        ConfigError: If two runs have one name.
        DataError: If a folder holds no run, or one without an answer, or a damaged line.
        MissingDependencyError: If the `eval` extra is not installed.
    """
    names = [path.resolve().name for path in runs]
    if len(set(names)) < len(names):
        raise ConfigError(f"two runs have one name ({', '.join(names)}); rename a folder")
    written: list[tuple[Summary, Results]] = []
    for path, name in zip(runs, names, strict=True):
        results = load(RunFolder(path), name)
        if not results.tables:
            raise DataError(f"{path} holds no answer yet; run canopy evaluate --out {path}")
        metrics = summarise(results, resamples=resamples, seed=seed)
        write_json(path / METRICS, metrics)
        written.append((Summary(run=name, metrics=metrics, config=results.config), results))
    files = [path / METRICS for path in runs]
    files += _tables([summary for summary, _ in written], out)
    drawn = figures(written, out / "figures")
    studies = [cases(RunFolder(path), own) for path, (_, own) in zip(runs, written, strict=True)]
    report = out / "report.md"
    report.write_text(_page([each for each, _ in written], drawn, studies), encoding="utf-8")
    return Report(
        files=[*files, *drawn, report], metrics=[dict(each.metrics) for each, _ in written]
    )


def _tables(runs: Sequence[Summary], out: Path) -> list[Path]:
    folder = out / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    for sheet in tables(runs):
        for ending, text in ((".md", sheet.markdown()), (".csv", sheet.csv())):
            path = folder / f"{sheet.name}{ending}"
            path.write_text(text, encoding="utf-8")
            files.append(path)
    return files


def _unanswered(run: Summary) -> list[str]:
    """Return which methods lack answers on which benchmarks, and how many."""
    return [
        f"{method} on {name} {own['n']:,} of {each['n']:,} ({own['n_failed']:,} failed)"
        for name, each in run.benchmarks().items()
        for method, own in each["methods"].items()
        if own["n"] < each["n"]
    ]


def _page(runs: Sequence[Summary], drawn: Sequence[Path], studies: Sequence[str]) -> str:
    parts = ["# Report", ""]
    for run in runs:
        metrics = run.metrics
        parts.append(
            f"- **{run.run}**: reader `{metrics['reader']}`, encoder `{metrics['encoder']}`, "
            f"{metrics['interval']}"
        )
        if metrics["oracle"]:
            parts.append(
                "  - **An oracle** that knows the gold takes the model's part: figures say what "
                "the evidence is worth, not what a model makes of it."
            )
        missing = _unanswered(run)
        if missing:
            parts.append(
                "  - **Not all questions are answered**; figures are of those that are, and "
                f"differences of those that both methods have: {'; '.join(missing)}."
            )
    parts += ["", "Numbers in brackets are the paper's, where its appendices state them.", ""]
    parts += [sheet.markdown() for sheet in tables(runs)]
    for path in drawn:
        if path.suffix == ".png":
            number = path.stem.removeprefix("figure-")
            parts += [
                f"### Figure {number}: {_FIGURES[path.stem]}",
                "",
                f"![{_FIGURES[path.stem]}](figures/{path.name})",
                "",
            ]
    parts += [study for study in studies if study]
    return "\n".join(parts)
