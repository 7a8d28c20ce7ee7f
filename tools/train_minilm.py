"""Train the adapters of `minilm` that come with the package (about 3 MB each).

`default` ranks items and compares nodes (D12): the preset `minilm` on the permissively licensed
benchmarks, then weakened to a share of what was learned, since weights between the published and
the tuned ones compare items better than either (Wortsman et al., Robust fine-tuning of zero-shot
models, 2022); the share was chosen on the validation parts. `paper` compares nodes alone (P1), by
the paper's objective and without the benchmarks that it holds back (P16).

Keeps the step that is best on the validation parts, and never reads a test part. Needs the extra
`train` and the benchmarks' files under `CANOPY_DATA`, a folder named like the benchmark each.
Interrupted, it goes on where it was when the command is given again.

Usage: CANOPY_DATA=DIR python tools/train_minilm.py [--kind default|paper] [--without NAME...]
       [--epochs N] [--limit N] [--out DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save

import canopy_rag.encoders
from canopy_rag.config import EncoderConfig
from canopy_rag.core.errors import CanopyError, ConfigError, ModelError
from canopy_rag.core.lexical import node_similarities
from canopy_rag.datasets.registry import benchmark
from canopy_rag.encoders.adapters import LORA_TENSORS, MANIFEST
from canopy_rag.text import DefaultSplitter
from canopy_rag.training import Recipe, preset
from canopy_rag.training.data import Source, portion, read_source
from canopy_rag.training.judge import Judged
from canopy_rag.training.loop import Progress
from canopy_rag.training.run import Job, train

LEARNED = ("nq", "hotpotqa", "musique", "ottqa", "tatqa")
"""Benchmarks whose licence allows to ship what is learned from them."""
IN_DOMAIN = ("nq", "hotpotqa", "ottqa")
"""Those of them that the paper trains on."""
WEIGHTS = Path(canopy_rag.encoders.__file__).parent / "weights"
ATTRIBUTION = "ATTRIBUTION.md"
LARGEST_LOSS = 0.01
"""Share of the decisions by which the finished adapter may be worse than it was while learning:
its numbers are rounded to 16 bits, and training may compute in bfloat16."""
ENCODED_AT_ONCE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One of the adapters that come with the package."""

    names: tuple[str, ...]
    recipe: Recipe
    strength: float
    """Share of what was learned that is kept."""
    folder: str


KINDS = {
    "default": Kind(names=LEARNED, recipe=preset("minilm"), strength=0.6, folder="minilm-adapter"),
    "paper": Kind(
        names=IN_DOMAIN,
        recipe=replace(preset("minilm"), across=0.0, neighbours=1, batch=8, epochs=2),
        strength=1.0,
        folder="minilm-adapter-paper",
    ),
}


def main() -> None:
    """Train, check, and put the folder in its place."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kind", default="default", choices=tuple(KINDS))
    parser.add_argument("--without", nargs="+", default=[], choices=LEARNED, metavar="NAME")
    parser.add_argument("--epochs", type=int, metavar="N", help="other than the recipe's")
    parser.add_argument("--limit", type=int, metavar="N", help="questions of each part, to try out")
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: into the package")
    asked = parser.parse_args()
    kind = KINDS[asked.kind]
    recipe = kind.recipe if asked.epochs is None else replace(kind.recipe, epochs=asked.epochs)
    sources = read([name for name in kind.names if name not in asked.without], asked.limit)
    out = WEIGHTS / kind.folder if asked.out is None else asked.out
    beside = out.with_name(f"{out.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    beside.parent.mkdir(parents=True, exist_ok=True)
    job = Job(encoder=EncoderConfig(name="minilm:base"), sources=sources, out=beside, recipe=recipe)
    body = train(job, on_progress=show, note=print)
    finish(beside, sources, body["results"]["decision_accuracy"]["after"], kind.strength)
    shutil.rmtree(out, ignore_errors=True)
    beside.rename(out)
    size = sum(path.stat().st_size for path in out.iterdir())
    print(f"{out}: {size / 1e6:.1f} MB")


def finish(folder: Path, sources: Sequence[Source], expected: float, strength: float) -> None:
    """Round an adapter, check that nothing was lost by it, weaken it, and say what it is."""
    round_tensors(folder / LORA_TENSORS)
    check(judged(folder, sources), folder, expected)
    if strength != 1:
        scale(folder / LORA_TENSORS, strength)
        found = judged(folder, sources)
        accuracy = {"all": found.accuracy, **found.by_benchmark}
        print(f"at {strength} of its strength: {accuracy}")
        path = folder / MANIFEST
        body = json.loads(path.read_bytes())
        body["results"]["strength"] = {"share": strength, "decision_accuracy": accuracy}
        path.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    (folder / ATTRIBUTION).write_text(attribution(sources), encoding="utf-8")


def scale(path: Path, strength: float) -> None:
    """Multiply what an adapter adds to the weights."""
    tensors = {
        name: tensor * np.float16(strength) if "lora_B" in name else tensor
        for name, tensor in load_file(path).items()
    }
    path.write_bytes(save(tensors, metadata={"format": "pt"}))


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


def check(found: Judged, folder: Path, expected: float) -> None:
    """Check that the finished adapter decides as well as it did while it was learned.

    Raises:
        ModelError: If it does not.
    """
    for name, accuracy in found.by_benchmark.items():
        print(f"{name}: {accuracy:.1%} of the decisions are right on the validation part")
    if found.accuracy < expected - LARGEST_LOSS:
        raise ModelError(
            f"{folder}: {found.accuracy:.1%} of the decisions are right once it is written, "
            f"{expected:.1%} were while it was learned; something is lost on the way"
        )


def judged(folder: Path, sources: Sequence[Source]) -> Judged:
    """Load an adapter as anyone does and count its right decisions on the validation parts."""
    examples = portion(sources, "validation").examples
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
