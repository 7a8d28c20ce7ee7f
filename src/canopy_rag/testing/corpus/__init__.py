"""A small corpus of all four modalities with questions whose answers are known.

It ships with the package: the demo shows it, tests and documentation use it. `LICENSES.md` beside
this file says where each of its files came from.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent
FILES = _HERE / "files"
"""The folder of the corpus; read it, copy it, never write to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleQuestion:
    """A question about the corpus."""

    question: str
    answer: str
    """Words that stand in the evidence if it holds the answer; compare without case."""
    file: str
    """Path below `FILES` of the file that holds the answer."""

    def answered_by(self, text: str) -> bool:
        """Whether `text` holds the known answer; case and line breaks do not count."""
        return " ".join(self.answer.casefold().split()) in " ".join(text.casefold().split())


def questions() -> tuple[SampleQuestion, ...]:
    """Return the questions, in a fixed order; each modality has at least two but video."""
    entries = json.loads((_HERE / "questions.json").read_text("utf-8"))
    return tuple(SampleQuestion(**entry) for entry in entries)


def copy_to(folder: Path) -> list[Path]:
    """Copy the corpus into `folder`, which is made if need be, and return the copies, sorted.

    Files that are there already and have the corpus's names are overwritten if they differ.
    """
    copies: list[Path] = []
    for source in sorted(FILES.rglob("*")):
        if source.is_dir() or source.name.startswith("."):
            continue
        target = folder / source.relative_to(FILES)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.is_file() or target.read_bytes() != source.read_bytes():
            shutil.copyfile(source, target)
        copies.append(target)
    return copies
