"""Lines of a given width, without the trailing spaces that a terminal's copy would take along."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from canopy_rag.cli.output import Output

NARROWEST = 20


def block(output: Output, text: Text, indent: int, first: int | None = None) -> list[Text]:
    """Return `text` wrapped to the width of stdout, each line indented.

    Args:
        output: Where it will be written.
        text: What to write.
        indent: Spaces before each line.
        first: Spaces before the first line, where they differ.
    """
    width = max(NARROWEST, output.width - indent)
    lines: list[Text] = []
    for line in text.wrap(output.console, width):
        line.rstrip()
        spaces = indent if lines or first is None else first
        lines.append(Text(" " * spaces).append_text(line))
    return lines


def columns(rows: Sequence[Sequence[Text]]) -> list[Text]:
    """Return rows of cells as lines, with the cells of a column below each other."""
    widths = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
    lines: list[Text] = []
    for row in rows:
        line = Text()
        for cell, width in zip(row, widths, strict=True):
            line.append_text(cell).append(" " * (width - cell.cell_len + 2))
        line.rstrip()
        lines.append(line)
    return lines


def single(output: Output, text: Text, indent: int) -> Text:
    """Return the first line of `text`, indented; it ends in an ellipsis where it is too long."""
    line = Text(" " * indent).append_text(text.split("\n")[0] if "\n" in text.plain else text)
    ellipsis = "…" if output.unicode else "..."
    if line.cell_len > output.width:
        line.truncate(max(NARROWEST, output.width - len(ellipsis)))
        line.append(ellipsis)
    return line
