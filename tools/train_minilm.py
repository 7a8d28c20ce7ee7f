"""Train the adapter of `minilm` that comes with the package (about 3 MB).

Learns the train parts of the permissively licensed benchmarks with the preset `minilm`, keeps the
step that is best on the validation parts, and never reads a test part. Needs the extra `train` and
the benchmarks' files under `CANOPY_DATA`, a folder named like the benchmark each. Interrupted, it
goes on where it was when the command is given again.

Usage: CANOPY_DATA=DIR python tools/train_minilm.py [--without NAME...] [--limit N] [--out DIR]
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save

import canopy_rag.encoders
from canopy_rag.config import EncoderConfig
from canopy_rag.core.errors import CanopyError, ConfigError, ModelError
from canopy_rag.core.lexical import node_similarities
from canopy_rag.datasets.registry import benchmark
from canopy_rag.encoders.adapters import LORA_TENSORS
from canopy_rag.text import DefaultSplitter
from canopy_rag.training import preset
from canopy_rag.training.data import Example, Source, portion, read_source
from canopy_rag.training.judge import Judged
from canopy_rag.training.loop import Progress
from canopy_rag.training.run import Job, train

LEARNED = ("nq", "hotpotqa", "musique", "ottqa", "tatqa")
"""Benchmarks whose licence allows to ship what is learned from them."""
OUT = Path(canopy_rag.encoders.__file__).parent / "adapters" / "minilm"
ATTRIBUTION = "ATTRIBUTION.md"
LARGEST_LOSS = 0.01
"""Share of the decisions by which the finished adapter may be worse than it was while learning:
its numbers are rounded to 16 bits, and training may compute in bfloat16."""
ENCODED_AT_ONCE = 64


def main() -> None:
    """Train, check, and put the folder in its place."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--without", nargs="+", default=[], choices=LEARNED, metavar="NAME")
    parser.add_argument("--limit", type=int, metavar="N", help="questions of each part, to try out")
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR")
    asked = parser.parse_args()
    names = [name for name in LEARNED if name not in asked.without]
    sources = read(names, asked.limit)
    beside = asked.out.with_name(f"{asked.out.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    beside.parent.mkdir(parents=True, exist_ok=True)
    job = Job(
        encoder=EncoderConfig(name="minilm"), sources=sources, out=beside, recipe=preset("minilm")
    )
    body = train(job, on_progress=show, note=print)
    round_tensors(beside / LORA_TENSORS)
    (beside / ATTRIBUTION).write_text(attribution(sources), encoding="utf-8")
    check(beside, sources, body["results"]["decision_accuracy"]["after"])
    shutil.rmtree(asked.out, ignore_errors=True)
    beside.rename(asked.out)
    size = sum(path.stat().st_size for path in asked.out.iterdir())
    print(f"{asked.out}: {size / 1e6:.1f} MB")


def read(names: Sequence[str], limit: int | None) -> list[Source]:
    """Return the train and validation parts of some benchmarks."""
    if "CANOPY_DATA" not in os.environ:
        raise ConfigError("CANOPY_DATA is not set; name the folder with the benchmarks' folders")
    data, splitter = Path(os.environ["CANOPY_DATA"]), DefaultSplitter()
    return [
        read_source(
            benchmark(name), data / name, splitter, parts=("train", "validation"), limit=limit
        )
        for name in names
    ]


def show(now: Progress) -> None:
    """Print how far it is, now and then."""
    if now.step % 25 and now.step != now.n_steps:
        return
    parts = "  ".join(f"{name} {value:.3f}" for name, value in now.parts.items())
    accuracy = "" if now.accuracy is None else f"  decides {now.accuracy:.1%}"
    print(f"step {now.step:,} of {now.n_steps:,}  {parts}{accuracy}", flush=True)


def round_tensors(path: Path) -> None:
    """Store an adapter's tensors in 16 bits; they are added to weights of 8 bits."""
    rounded = {name: tensor.astype(np.float16) for name, tensor in load_file(path).items()}
    if not all(np.isfinite(tensor).all() for tensor in rounded.values()):
        raise ModelError(f"{path}: a value does not fit into 16 bits; train with a lower rate")
    path.write_bytes(save(rounded, metadata={"format": "pt"}))


def attribution(sources: Sequence[Source]) -> str:
    """Return what the data's licences ask for."""
    lines = [
        "# What this adapter was trained on",
        "",
        "Questions, their evidence and the texts and tables that hold it, of samples of these data",
        "sets. None of their content is in this folder.",
        "",
        "| data set | questions | licence | from |",
        "|---|---|---|---|",
    ]
    for source in sources:
        about = benchmark(source.loaded.name)
        n = len(source.parts["train"])
        lines.append(f"| {about.title} | {n:,} | {about.licence} | <{about.homepage}> |")
    lines += [
        "",
        "Texts and tables of Natural Questions, HotpotQA, MuSiQue and OTT-QA are from Wikipedia,",
        "CC BY-SA. The adapter belongs to all-MiniLM-L6-v2 (sentence-transformers), Apache-2.0.",
        "",
    ]
    return "\n".join(lines)


def check(folder: Path, sources: Sequence[Source], expected: float) -> None:
    """Load the finished adapter as anyone does and judge the validation parts again.

    Raises:
        ModelError: If it decides worse than while it was learned.
    """
    found = judged(folder, portion(sources, "validation").examples)
    for name, accuracy in found.by_benchmark.items():
        print(f"{name}: {accuracy:.1%} of the decisions are right on the validation part")
    if found.accuracy < expected - LARGEST_LOSS:
        raise ModelError(
            f"{folder}: {found.accuracy:.1%} of the decisions are right once it is written, "
            f"{expected:.1%} were while it was learned; something is lost on the way"
        )


def judged(folder: Path, examples: Sequence[Example]) -> Judged:
    """Count the right decisions of the encoder with an adapter."""
    encoder: Any = canopy_rag.encoders.encoder(f"minilm+{folder}")
    found = Judged()
    ordered = sorted(examples, key=lambda each: each.item.id)
    for start in range(0, len(ordered), ENCODED_AT_ONCE):
        group = ordered[start : start + ENCODED_AT_ONCE]
        items = {each.item.id: each.item for each in group}
        encoded = encoder.encode_items(list(items.values()))
        vectors = dict(zip(items, encoded, strict=True))
        queries = encoder.encode_queries([each.query for each in group])
        for position, each in enumerate(group):
            own = [(each.item.nodes, vectors[each.item.id].nodes)]
            (values,) = node_similarities(own, queries.of(position))
            found.add(each, [float(values[node]) for node in each.nodes])
    return found


if __name__ == "__main__":
    try:
        main()
    except CanopyError as error:
        sys.exit(str(error))
