"""`canopy datasets`: which benchmarks can be read, and whether a folder holds one."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from canopy_rag.cli.options import FLAG, Debug, Json, Offline, Quiet, settings
from canopy_rag.cli.output import Output
from canopy_rag.cli.wording import count, one_line

if TYPE_CHECKING:
    from pathlib import Path

    from canopy_rag.datasets.base import Benchmark

_GROUPS = {
    "in_domain": "in domain",
    "out_of_domain": "out of domain",
    "extra": "beyond the paper",
}


def datasets(
    places: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=PATH]...",
            help="A benchmark and the folder with its official files, to be checked.",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            metavar=FLAG,
            help="Check the questions only, without going through all items.",
        ),
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    offline: Offline = False,
    debug: Debug = False,
) -> None:
    """List the benchmarks that can be read, or check folders with their official files.

    The list gives names, expected files and licences. Nothing is ever downloaded. A check reads
    whichever of the files are there and says how many questions were kept and why others were not,
    what items there are, and how the questions are split; it fails if gold points nowhere.
    """
    from canopy_rag.datasets.registry import benchmarks, parse_place

    output = Output(as_json=as_json, quiet=quiet)
    settings(offline=offline, output=output)
    if not places:
        known = list(benchmarks())
        if as_json:
            output.json({"datasets": [_description(each) for each in known]})
        for each in known:
            _show_description(output, each)
        output.note("Check a folder with: canopy datasets NAME=FOLDER")
        return
    reports = [
        _report(output, benchmark, folder, quick=quick)
        for benchmark, folder in map(parse_place, places)
    ]
    if as_json:
        output.json({"datasets": reports})
    if any(report["problems"] for report in reports):
        raise typer.Exit(1)


def _description(benchmark: Benchmark) -> dict[str, Any]:
    names = ("name", "title", "group", "metric", "licence", "homepage")
    return {
        **{name: getattr(benchmark, name) for name in names},
        "kinds": list(benchmark.kinds),
        "files": [asdict(each) for each in benchmark.files],
    }


def _show_description(output: Output, benchmark: Benchmark) -> None:
    from rich.text import Text

    from canopy_rag.cli.layout import block

    output.show(Text.assemble((benchmark.name, "bold"), f"  {benchmark.title}"))
    about = (_GROUPS[benchmark.group], benchmark.licence, benchmark.homepage)
    output.show(*block(output, Text("; ".join(filter(None, about)), "dim"), indent=2))
    for each in benchmark.files:
        line = Text.assemble((each.path, "cyan"), f"  {each.what}")
        output.show(*block(output, line, indent=4, first=2))
    output.show("")


def _report(output: Output, benchmark: Benchmark, folder: Path, *, quick: bool) -> dict[str, Any]:
    """Check one folder and show what was found; returns it for JSON."""
    from collections import Counter

    from canopy_rag.datasets.frozen import standard_split
    from canopy_rag.datasets.registry import load
    from canopy_rag.datasets.splits import PARTS
    from canopy_rag.text import DefaultSplitter

    loaded = load(benchmark.name, folder, DefaultSplitter())
    parts = standard_split(loaded)
    report: dict[str, Any] = {
        "name": benchmark.name,
        "path": str(folder),
        "questions": {
            "total": loaded.n_total,
            "kept": len(loaded.questions),
            "omitted": loaded.why_omitted(),
            "kinds": dict(Counter(each.kind for each in loaded.questions).most_common()),
        },
        "splits": {part: len(parts.ids(part)) for part in PARTS} | {"how": parts.how},
        "notes": list(loaded.notes),
        "problems": [],
    }
    if not quick:
        from canopy_rag.datasets.checking import check

        found = check(loaded, _counting(output))
        report["items"] = {"total": sum(found.n_items.values()), **found.n_items}
        report["nodes"] = found.n_nodes
        report["problems"] = list(found.problems)
    _show_report(output, report)
    return report


def _counting(output: Output) -> Any:
    def on_items(n_items: int) -> None:
        if n_items % 100_000 == 0:
            output.note(f"{n_items:,} items so far")

    return on_items


def _show_report(output: Output, report: dict[str, Any]) -> None:
    from rich.text import Text

    from canopy_rag.cli.layout import block

    questions, splits = report["questions"], report["splits"]
    rows = [("kept", f"{questions['kept']:,} of {count(questions['total'], 'question')}")]
    rows += [("  not", f"{n:,}: {why}") for why, n in questions["omitted"].items()]
    kinds = ", ".join(f"{kind} {n:,}" for kind, n in questions["kinds"].items() if kind)
    rows += [("kinds", kinds)] * bool(kinds)
    if "items" in report:
        modalities = ", ".join(
            f"{name} {n:,}" for name, n in report["items"].items() if name != "total"
        )
        rows.append(
            ("items", f"{report['items']['total']:,} ({modalities})" if modalities else "0")
        )
        rows.append(("nodes", f"{report['nodes']:,}"))
    sizes = ", ".join(f"{part} {n:,}" for part, n in splits.items() if part != "how")
    rows.append(("split", f"{sizes} ({splits['how']})"))
    output.show(Text(f"{report['name']}  {report['path']}", "bold"))
    for name, value in rows:
        output.show(*block(output, Text(f"{name:<6}{one_line(value)}"), indent=8, first=2))
    output.show("")
    for note in report["notes"]:
        output.warn(f"{report['name']}: {one_line(note)}")
    for problem in report["problems"]:
        output.error(f"{report['name']}: {one_line(problem)}")
