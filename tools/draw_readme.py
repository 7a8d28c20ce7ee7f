"""Draw the README's picture, docs/assets/tree.svg, by the program itself.

Run `python tools/draw_readme.py` when the drawing of trees changes; it needs the embedded encoder.
"""

from __future__ import annotations

import io
import re
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

from canopy_rag import Index
from canopy_rag.cli.drawing import drawings
from canopy_rag.config import Config, SelectConfig
from canopy_rag.testing.corpus import FILES

QUERY = "What pressure does an espresso machine need?"
PICTURE = Path(__file__).resolve().parent.parent / "docs/assets/tree.svg"
WIDTH = 108


def picture() -> str:
    """Return the drawing of the best item of a guide as SVG, without fonts from the network."""
    with tempfile.TemporaryDirectory() as folder:
        paper = Config(select=SelectConfig(select="paper"))
        index = Index.open(Path(folder, "index"), create=True, config=paper)
        index.add(FILES / "guides")
        explained = index.explain(QUERY, k=1)
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.assemble(("$ ", "dim"), f'canopy explain "{QUERY}" --select paper'))
    console.print()
    for line in drawings(explained, WIDTH, unicode=True):
        console.print(line)
    svg = console.export_svg(title="canopy", theme=DIMMED_MONOKAI, unique_id="canopy-tree")
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


if __name__ == "__main__":
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(picture(), encoding="utf-8")
    print(PICTURE)
