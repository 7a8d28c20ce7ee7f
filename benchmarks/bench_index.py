"""What indexing costs beside the network alone, and beside sentence-transformers.

Documents of the Natural Questions sample, written as Markdown files. The whole of `canopy index`
(reading, parsing, encoding, writing, compacting) against a bare loop over the very same batches in
the same onnxruntime session; then items of sixteen sentences, encoded once each, against their
nodes and against the items in sentence-transformers with the same weights. Everything on one thread
unless it says otherwise, in turns. Writes `benchmarks/results/index.json`.

Without sentence-transformers its rows are left out.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import documents
import numpy as np
from peers import Texts, Watch, network, sentence_transformer
from samples import machine, parser, require, write

from canopy_rag.api import Index
from canopy_rag.config import Config
from canopy_rag.core.node_text import node_text
from canopy_rag.core.protocols import Encoder
from canopy_rag.core.types import Item
from canopy_rag.encoders.minilm import MiniLM
from canopy_rag.encoders.model import BATCH_TOKENS, TokenModel
from canopy_rag.encoders.registry import encoder as named_encoder
from canopy_rag.encoders.windows import batches
from canopy_rag.store import LanceStore

CLI = """
import sys
from pathlib import Path
from canopy_rag.cli import main
try:
    main()
finally:  # a process's own peak; rusage has that of the process it was forked from
    status = Path("/proc/self/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    print(peak.split()[1], file=sys.stderr)
"""
N_LEAVES = 16
LIMITS = {"tokens_to_items": 1.15, "rate_to_bare": 0.9, "to_nodes_elsewhere": 4.0}
PIPELINE, BESIDE, BARE = "canopy index", "canopy index --workers 2", "bare onnxruntime loop"
SEVERAL = "canopy index, a pass for each core"
ITEMS, NODES = "sentence-transformers, each item", "sentence-transformers, each node"
OWN, OWN_NODES = "canopy, each item once", "onnxruntime, each node"


class Recorder:
    """Notes the items that an encoder gets, and the sequences that its network reads, by call."""

    def __init__(self, encoder: MiniLM) -> None:
        self.items: list[Item] = []
        self.calls: list[list[Sequence[int]]] = []
        self._encoder = encoder
        self._model = network(encoder)

    def __enter__(self) -> Recorder:
        encode, states = self._encoder.encode_items, self._model.states

        def encode_items(items: Sequence[Item]) -> Any:
            self.items += items
            return encode(items)

        def read(sequences: Sequence[Sequence[int]]) -> Any:
            self.calls.append(list(sequences))
            return states(sequences)

        vars(self._encoder)["encode_items"], vars(self._model)["states"] = encode_items, read
        return self

    def __exit__(self, *_: object) -> None:
        del vars(self._encoder)["encode_items"], vars(self._model)["states"]

    @property
    def n_tokens(self) -> int:
        """Tokens of all sequences, their marks and contexts included."""
        return sum(len(ids) for call in self.calls for ids in call)

    @property
    def padding(self) -> float:
        """The share of what the network computes that is padding."""
        computed = 0
        for call in self.calls:
            lengths = [len(ids) for ids in call]
            computed += sum(len(own) * lengths[own[0]] for own in batches(lengths, BATCH_TOKENS))
        return 1 - self.n_tokens / computed


def index_files(folder: Path, target: Path, encoder: Encoder, workers: int) -> None:
    """Make an index of a folder, from nothing, with an encoder that is loaded already."""
    shutil.rmtree(target, ignore_errors=True)
    config = Config()
    Index.open(target, create=True, config=config)
    store = LanceStore.open(target, fingerprint=encoder.fingerprint)
    report = Index(store, encoder, config).add(folder, workers=workers)
    if report.failed:
        raise SystemExit(f"not indexed: {report.failed}")


def bare_loop(model: TokenModel, calls: Sequence[Sequence[Sequence[int]]]) -> None:
    """Run the same sequences through the network, in the same batches, and drop the states."""
    for sequences in calls:
        for _ in model.states(sequences):
            pass


def in_turns(ways: dict[str, Callable[[], object]], repeats: int) -> Watch:
    """Run everything in turns, each turn beginning with another one."""
    watch = Watch()
    names = list(ways)
    for number in range(repeats):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            watch.time(name, ways[name])
            print(f"  {name}: {watch.seconds[name][-1]:.1f} s", flush=True)
    return watch


def pipeline(folder: Path, encoder: MiniLM, repeats: int, transformer: Any) -> dict[str, Any]:
    """Measure whole indexing runs of a folder."""
    target = folder.parent / "index"
    several = named_encoder("minilm")
    several.encode_queries(["load"])
    with Recorder(encoder) as recorder:
        index_files(folder, target, encoder, 1)
    items = recorder.items
    texts = [node_text(item, item.nodes[0]) for item in items]
    ways: dict[str, Callable[[], object]] = {
        PIPELINE: partial(index_files, folder, target, encoder, 1),
        BARE: partial(bare_loop, network(encoder), recorder.calls),
        BESIDE: partial(index_files, folder, target, encoder, 2),
        SEVERAL: partial(index_files, folder, target, several, 1),
    }
    if transformer is not None:
        ways[ITEMS] = partial(transformer.encode, texts, show_progress_bar=False)
    watch = in_turns(ways, repeats)
    n_tokens = sum(map(encoder.count_tokens, texts))
    n_nodes = sum(len(item.nodes) for item in items)
    n_bytes = sum(file.stat().st_size for file in target.rglob("*") if file.is_file())
    return {
        "files": len(list(folder.iterdir())),
        "items": len(items),
        "nodes": n_nodes,
        "repeats": repeats,
        "items_per_s": {name: round(len(items) / watch.median(name), 1) for name in ways},
        "cpu_to_bare": {
            name: round(
                float(np.median(watch.cpu_seconds[name]) / np.median(watch.cpu_seconds[BARE])), 3
            )
            for name in ways
        },
        "item_tokens": n_tokens,
        "encoder_tokens": recorder.n_tokens,
        "tokens_to_items": round(recorder.n_tokens / n_tokens, 3),
        "padding": round(recorder.padding, 3),
        "rate_to_bare": {name: round(watch.median(BARE) / watch.median(name), 3) for name in ways},
        "bytes": {
            "text": sum(len(text.encode()) for text in texts),
            "float32 vectors of all nodes": n_nodes * encoder.fingerprint.dim * 4,
            "index": n_bytes,
            "index per item": round(n_bytes / len(items)),
            "index per node": round(n_bytes / n_nodes),
        },
        "peak_mb": {
            "half of the files": peak_mb(folder, target, len(items) // 2),
            "all files": peak_mb(folder, target, None),
        },
    }


def peak_mb(folder: Path, target: Path, n_files: int | None) -> int:
    """Return the most memory that a process of `canopy index` held; Linux only."""
    shutil.rmtree(target, ignore_errors=True)
    paths = [str(path) for path in sorted(folder.iterdir())[:n_files]]
    command = [sys.executable, "-c", CLI, "index", *paths, "--index", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return round(int(done.stderr.split()[-1]) / 1024)


def sixteen(
    items: Sequence[Item], encoder: MiniLM, repeats: int, transformer: Any
) -> dict[str, Any]:
    """Measure encoding items of sixteen leaves once, and node by node."""
    model = network(encoder)
    nodes = [node_text(item, node) for item in items for node in item.nodes]
    texts = [node_text(item, item.nodes[0]) for item in items]
    with Recorder(encoder) as recorder:
        encoder.encode_items(items)
    each = Texts(model)
    each(nodes)
    ways: dict[str, Callable[[], object]] = {
        OWN: partial(encoder.encode_items, items),
        OWN_NODES: partial(Texts(model), nodes),
    }
    if transformer is not None:
        ways[NODES] = partial(transformer.encode, nodes, show_progress_bar=False)
        ways[ITEMS] = partial(transformer.encode, texts, show_progress_bar=False)
    watch = in_turns(ways, repeats)
    return {
        "items": len(items),
        "nodes": len(nodes),
        "repeats": repeats,
        "items_per_s": {name: round(len(items) / watch.median(name), 2) for name in ways},
        "encoder_tokens": {OWN: recorder.n_tokens, "each node": each.n_tokens},
        "times_as_fast": {name: round(watch.median(name) / watch.median(OWN), 2) for name in ways},
    }


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--files", type=int, default=500)
    made.add_argument("--items", type=int, default=40, help="of sixteen sentences")
    made.add_argument("--repeats", type=int, default=5)
    arguments = made.parse_args()
    texts = documents.texts(documents.natural_questions(require(arguments.data, "nq")))
    encoder = named_encoder("minilm", threads=1)
    assert isinstance(encoder, MiniLM)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        transformer = None
        if importlib.util.find_spec("sentence_transformers") is not None:
            transformer = sentence_transformer(encoder, folder / "st", 1)
        first = dict(list(texts.items())[: arguments.files])
        documents.write(folder / "files", first)
        items = list(islice(documents.of_leaves(texts, N_LEAVES), arguments.items))
        result = {
            "what": "indexing beside the network alone and sentence-transformers, one thread",
            "limits": LIMITS,
            **machine(),
            "pipeline": pipeline(folder / "files", encoder, arguments.repeats, transformer),
            "sixteen": sixteen(items, encoder, arguments.repeats, transformer),
        }
    print(json.dumps(result, indent=1))
    write("index", result)


if __name__ == "__main__":
    main()
