from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from canopy_rag.cli import app

NOTES = """# Orchard

Apples are picked in October. Pears are picked in September. The gate is locked at night.

## Bees

Two hives stand beside the pond. Honey is sold on Sundays.
"""
PEOPLE = "name,born,field\nAda,1815,mathematics\nCharles,1791,machines\nMary,1780,astronomy\n"


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout; fails if there is anything else."""
        return json.loads(self.out)


Run = Callable[..., Done]


@pytest.fixture(autouse=True)
def _plain_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings from outside; an empty working directory."""
    for name in os.environ:
        if name.startswith("CANOPY_") or name == "OPENAI_API_KEY":
            monkeypatch.delenv(name)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


@pytest.fixture
def run() -> Run:
    """Run a command in this process."""

    def invoke(*arguments: str, stdin: str | bytes = "", columns: int = 100) -> Done:
        result = CliRunner().invoke(
            app, list(arguments), input=stdin, env={"COLUMNS": str(columns), "NO_COLOR": "1"}
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Done(result.exit_code, result.stdout, result.stderr)

    return invoke


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text, a table, a note and a file that is not read."""
    folder = tmp_path_factory.mktemp("orchard")
    (folder / "notes.md").write_text(NOTES, encoding="utf-8")
    (folder / "people.csv").write_text(PEOPLE, encoding="utf-8")
    (folder / "song.mp3").write_bytes(b"no text")
    return folder


@pytest.fixture(scope="session")
def index(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An index of that folder, made by the hashing encoder."""
    place = tmp_path_factory.mktemp("index") / "orchard"
    command = [sys.executable, "-c", "from canopy_rag.cli import main; main()", "index"]
    command += [str(folder), "--index", str(place), "--encoder", "hashing", "--quiet"]
    subprocess.run(command, check=True, capture_output=True)
    return str(place)


@pytest.fixture
def benchmark(tmp_path: Path) -> str:
    """A made-up benchmark in its official layout, as `--benchmark` takes it."""
    records = [
        {
            "_id": f"q{number}",
            "question": f"Who made thing {number}?",
            "answer": f"Maker {number}",
            "type": "bridge",
            "level": "hard",
            "context": [
                [f"Thing {number}", [f"Maker {number} made thing {number}.", " It is big."]],
                [f"Other {number}", ["Nothing is known.", " It rained."]],
            ],
            "supporting_facts": [[f"Thing {number}", 0]],
        }
        for number in range(12)
    ]
    folder = tmp_path / "hotpotqa"
    folder.mkdir()
    (folder / "hotpot_dev_distractor_v1.json").write_text(json.dumps(records))
    return f"hotpotqa={folder}"
