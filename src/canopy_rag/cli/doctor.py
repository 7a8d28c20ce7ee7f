"""`canopy doctor`: what is installed, what is missing, and what that would add."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from canopy_rag.cli.options import Debug, IndexFolder, Json, Offline, Quiet, settings
from canopy_rag.cli.output import Output

if TYPE_CHECKING:
    from rich.text import Text

    from canopy_rag.cli.checks import Check


def doctor(
    index: IndexFolder = None,
    as_json: Json = False,
    quiet: Quiet = False,
    offline: Offline = False,
    debug: Debug = False,
) -> None:
    """Check this installation: packages, extras, encoder, chat model, OCR, the index's folder.

    The exit code is 0 unless what every command needs is broken; a missing extra is no fault.
    """
    from canopy_rag.cli.checks import all_checks

    output = Output(as_json=as_json, quiet=quiet)
    config = settings(offline=offline, output=output, flags={"index.path": index})
    checks = all_checks(config)
    is_broken = any(check.state == "broken" and check.is_base for check in checks)
    if as_json:
        output.json({"ok": not is_broken, "checks": [check.to_dict() for check in checks]})
    else:
        for check in checks:
            output.show(*_lines(output, check))
        output.show("")
        output.show("Something that every command needs is broken." if is_broken else "All well.")
    if is_broken:
        raise typer.Exit(1)


def _lines(output: Output, check: Check) -> list[Text]:
    from rich.text import Text

    from canopy_rag.cli.layout import block

    marks = {"ok": "✓", "missing": "-", "broken": "✗"} if output.unicode else {}
    style = {"ok": "green", "missing": "yellow", "broken": "bold red"}[check.state]
    mark = marks.get(check.state, check.state)
    label = Text.assemble((f"{mark} ", style), (f"{check.name:<14}", "bold"))
    lines = block(output, Text(check.detail), label.cell_len)
    if check.remedy:
        lines += block(output, Text(check.remedy, "dim"), label.cell_len)
    lines[0] = label.append_text(lines[0][label.cell_len :])
    return lines
