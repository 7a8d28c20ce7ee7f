"""Settle the splits and decision instances of benchmarks: `python tools/freeze_splits.py DATA`.

DATA holds a folder per benchmark. Existing files are rewritten only with `--again NAME...`: what
was settled is what later results are compared on. `--check` compares instead of writing.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib.metadata import version
from pathlib import Path

from canopy_rag.datasets.base import Loaded
from canopy_rag.datasets.frozen import SEED, frozen, questions_digest
from canopy_rag.datasets.instances import gold_items, instances_digest
from canopy_rag.datasets.registry import load
from canopy_rag.datasets.splits import PARTS, Sizes, split
from canopy_rag.text import DefaultSplitter

# Those whose licence lets lists of question ids be passed on; see docs/datasets.md.
SIZES = {
    "nq": Sizes(),
    "hotpotqa": Sizes(),
    "ottqa": Sizes(),
    "tatqa": Sizes(),
    "musique": Sizes(),
    # Two questions were at hand.
    "2wikimultihopqa": Sizes(train=0.0, validation=0.0, test=1.0),
}
HOME = Path(__file__).resolve().parent.parent / "src/canopy_rag/datasets/frozen"


def document(loaded: Loaded, sizes: Sizes) -> str:
    """Return the text of a benchmark's file, a question a line."""
    made = split(loaded.questions, seed=SEED, sizes=sizes)
    part_of = {question_id: part for part in PARTS for question_id in made.ids(part)}
    items = gold_items(loaded)
    counts = ", ".join(f"{len(made.ids(part)):,} {part}" for part in PARTS)
    head = {
        "name": loaded.name,
        "made": f"{len(loaded.questions):,} questions of a sample of the official files: {counts}; "
        f"{made.how}; default sentence splitter, syntok {version('syntok')}, halving trees",
        "columns": ["part", "decision instances", "hash over trees, gold leaves and instances"],
        "sha256": questions_digest(loaded.questions),
    }
    rows = [
        f"  {json.dumps(question.id, ensure_ascii=False)}: "
        f"{json.dumps([part_of[question.id], *instances_digest(question, items)])}"
        for question in sorted(loaded.questions, key=lambda each: each.id)
    ]
    lines = [f"{json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    return "\n".join(["{", *lines, '"questions": {', ",\n".join(rows), "}", "}"]) + "\n"


def main() -> int:
    """Write or compare the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("names", nargs="*", default=list(SIZES))
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    status = 0
    for name in arguments.names:
        path = HOME / f"{name}.json"
        if frozen(name) is not None and not (arguments.again or arguments.check):
            print(f"{name}: settled before; --again rewrites it")
            continue
        text = document(load(name, arguments.data / name, DefaultSplitter()), SIZES[name])
        if arguments.check:
            is_same = path.is_file() and path.read_text(encoding="utf-8") == text
            print(f"{name}: {'the same' if is_same else 'DIFFERS'}")
            status |= not is_same
        else:
            path.write_text(text, encoding="utf-8")
            print(f"{name}: {json.loads(text)['made']}")
    return status


if __name__ == "__main__":
    sys.exit(main())
