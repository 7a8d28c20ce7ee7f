"""Whole outputs of the command line as readable JSON, made with the hashing encoder.

`UPDATE_GOLDEN=1 pytest tests/golden` rewrites the files; review the difference before committing.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from canopy_rag.cli import app

HERE = Path(__file__).parent
GUIDE = """# Orchard

Apples are picked in October. Pears are picked in September. The gate is locked at night.

## Bees

Two hives stand beside the pond. Honey is sold on Sundays. The bees sleep in winter.
"""
TABLE = "name,born,field\nAda,1815,mathematics\nCharles,1791,machines\nMary,1780,astronomy\n"


@pytest.fixture
def orchard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in os.environ:
        if name.startswith("CANOPY_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    files = tmp_path / "files"
    files.mkdir()
    (files / "guide.md").write_text(GUIDE, encoding="utf-8", newline="\n")
    (files / "people.csv").write_text(TABLE, encoding="utf-8", newline="\n")
    return files


def _output(*arguments: str, stdin: str = "") -> Any:
    done = CliRunner().invoke(app, [*arguments, "--json"], input=stdin)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def _rounded(value: Any) -> Any:
    """Return JSON with its numbers to four places: the last bits differ between machines."""
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    return value


def _check(name: str, value: Any) -> None:
    path = HERE / f"{name}.json"
    text = json.dumps(_rounded(value), indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8", newline="\n")
    assert json.loads(path.read_text("utf-8")) == json.loads(text)


def test_compress() -> None:
    table = {"header": ["name", "born"], "rows": [["Ada", "1815"], ["Charles", "1791"]]}
    documents = [
        GUIDE.split("\n\n")[1],
        {"id": "people", "modality": "table", "title": "People", "table": table},
        {"id": "bees", "title": "Bees", "text": GUIDE.split("\n\n")[3]},
    ]
    line = json.dumps({"query": "when are apples picked", "documents": documents})
    _check("compress", _output("compress", "--encoder", "hashing", stdin=f"{line}\n"))


def test_index_search_and_explain(orchard: Path) -> None:
    report = _output("index", str(orchard), "--encoder", "hashing")
    _check("index", report)
    _check("search", _output("search", "hives beside the pond"))
    _check("explain", _output("explain", "hives beside the pond"))


def test_ask(orchard: Path) -> None:
    _output("index", str(orchard), "--encoder", "hashing")
    answer = _output("ask", "Where do the two hives stand?")
    assert set(answer["usage"].pop("seconds")) == {"retrieve", "search", "refine", "read"}
    _check("ask", answer)
