"""A folder of small files of several kinds, and a later version of it."""

from __future__ import annotations

import json
import random
from pathlib import Path

_TOLD = (
    "harbour lantern orchard ledger granite violin copper meadow signal archive winter "
    "bridge kettle saddle timber beacon barley quarry marble ferry"
)
WORDS = tuple(_TOLD.split())
REMOVED = "zzremovedzz"
"""Stands in the ids of items that the later version lacks: columns of texts are compressed."""


def write(folder: Path, n_files: int, seed: int = 0) -> None:
    """Write the files; the last is a text that is larger than a commit."""
    dice = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(n_files):
        _write_one(folder, number, dice, REMOVED if number % 3 == 0 else "")
    paragraphs = (_prose(dice, 8) for _ in range(16))
    (folder / "large.txt").write_text("\n\n".join(paragraphs), "utf-8")


def change(folder: Path, n_files: int, seed: int = 1) -> None:
    """Take every third file away, write every fourth anew, add two, and shorten the large one."""
    dice = random.Random(seed)
    for number in range(n_files):
        (path,) = folder.glob(f"{number:03d}.*")
        if number % 3 == 0:
            path.unlink()
        elif number % 4 == 0:
            path.unlink()
            _write_one(folder, number, dice, "")
    for number in (n_files, n_files + 1):
        _write_one(folder, number, dice, "")
    (folder / "large.txt").write_text("\n\n".join(_prose(dice, 8) for _ in range(12)), "utf-8")


def _write_one(folder: Path, number: int, dice: random.Random, marker: str) -> None:
    kind = ("txt", "md", "csv", "jsonl", "html")[number % 5]
    path = folder / f"{number:03d}.{kind}"
    if kind == "csv":
        rows = [
            f"{dice.choice(WORDS)},{dice.randrange(999)},{dice.choice(WORDS)}" for _ in range(12)
        ]
        path.write_text("\n".join(["name,number,note", *rows]), "utf-8")
    elif kind == "jsonl":
        lines = [{"id": f"{marker}{number}-{n}", "text": _prose(dice, 3)} for n in range(4)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    elif kind == "html":
        body = "".join(f"<h2>Part {n}</h2><p>{_prose(dice, 4)}</p>" for n in range(3))
        path.write_text(f"<html><body>{body}</body></html>", "utf-8")
    else:
        parts = [f"# Part {n}\n\n{_prose(dice, 5)}" for n in range(3)]
        path.write_text("\n\n".join(parts), "utf-8")


def _prose(dice: random.Random, n_sentences: int) -> str:
    told = (" ".join(dice.choices(WORDS, k=dice.randint(4, 12))) for _ in range(n_sentences))
    return " ".join(f"{sentence.capitalize()}." for sentence in told)
