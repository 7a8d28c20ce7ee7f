"""What other ways to run the embedded network would gain, and which decisions they change.

The same batches in turns: onnxruntime as it is shipped (float32, one thread a pass), passes side by
side, threads that share out a pass, 8-bit weights and activations (dynamic, and in blocks of 64),
openvino in float32 and bfloat16. Beside the time, for questions of the Natural Questions sample:
whether the same ten items are found, and the same regions of them shown, when queries and items are
encoded so. Writes `benchmarks/results/runtime.json`.

Needs `onnx`, and for all rows `onnx_ir` and `openvino`; what is not installed is left out.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import documents
import numpy as np
import onnx
import onnxruntime as ort
from bench_index import Recorder, bare_loop, in_turns
from onnx import numpy_helper
from peers import Watch, network
from samples import PoolStore, machine, parser, require, write
from vectors import encoded

from canopy_rag.config import EncoderConfig
from canopy_rag.core.types import Item
from canopy_rag.core.vectors import QueryVectors
from canopy_rag.datasets.frozen import standard_split
from canopy_rag.encoders.checkpoint import Weights
from canopy_rag.encoders.locate import GRAPH
from canopy_rag.encoders.minilm import MiniLM
from canopy_rag.encoders.model import TokenModel
from canopy_rag.encoders.registry import encoder as named_encoder
from canopy_rag.encoders.registry import from_config
from canopy_rag.encoders.runtime import Backend, Network
from canopy_rag.encoders.runtime import network as runtime
from canopy_rag.pipeline.compressor import explain

K = 10
TOGETHER = 32
"""Queries that are embedded in one call."""
OPENVINO = "openvino bfloat16 (encoder.backend)"
SHIPPED = "onnxruntime float32"
Run = Network


def whole_graph(model: TokenModel, path: Path) -> None:
    """Write the graph with its weights in it."""
    graph = onnx.load_from_string(GRAPH.read_bytes())
    weights = model.weights().graph
    for tensor in graph.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            value = np.ascontiguousarray(weights[tensor.name])
            tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    onnx.save(graph, path)


def session(path: Path, threads: int = 1) -> Run:
    """Return an onnxruntime session."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    options.enable_mem_pattern = False
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    made = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda words, mask: made.run(None, {"words": words, "mask": mask})[0]


def dynamic(path: Path) -> Run:
    """Return int8 weights, activations with one scale for each batch."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    target = path.with_name("dynamic.onnx")
    quantize_dynamic(
        path, target, op_types_to_quantize=["MatMul"], per_channel=True, weight_type=QuantType.QInt8
    )
    return session(target)


def blocks(path: Path) -> Run:
    """Return int8 weights and activations with a scale for each block of 64."""
    from onnxruntime.quantization.matmul_nbits_quantizer import (
        DefaultWeightOnlyQuantConfig,
        MatMulNBitsQuantizer,
    )

    config = DefaultWeightOnlyQuantConfig(
        block_size=64, is_symmetric=True, accuracy_level=4, bits=8
    )
    quantizer = MatMulNBitsQuantizer(onnx.load(path), algo_config=config)
    quantizer.process()
    target = path.with_name("blocks.onnx")
    quantizer.model.save_model_to_file(str(target))
    return session(target)


def openvino(path: Path) -> Run:
    """Return openvino in float32, on one thread."""
    import openvino as ov

    hints = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
    request = ov.Core().compile_model(path, "CPU", hints).create_infer_request()
    return lambda words, mask: request.infer({"words": words, "mask": mask})[0].copy()


@contextmanager
def swapped(encoder: MiniLM, run: Run) -> Iterator[None]:
    """Run an encoder's network in another way."""
    model: Any = network(encoder)
    own = model._network
    model._network = run
    try:
        yield
    finally:
        model._network = own


def kept(items: Any, queries: QueryVectors, place: int, method: Any) -> list[tuple[int, ...]]:
    """Return the regions shown of each item."""
    return [each.refinement.kept for each in explain(items, queries.of(place), method)]


class Agreement:
    """Compares what a way to run finds and shows with what the shipped one does.

    Args:
        encoder: The shipped one.
        items: To be found.
        questions: To be asked.
    """

    def __init__(self, encoder: MiniLM, items: Sequence[Item], questions: Sequence[str]) -> None:
        self._encoder = encoder
        self._questions = questions
        store = PoolStore(encoder.fingerprint, items, encoded(items, "minilm"))
        self._queries = encoder.encode_queries(questions)
        hits = [store.search(row, 2 * K) for row in self._queries.retrieval]
        union = {each.item.id: each.item for own in hits for each in own}
        self._items = list(union.values())
        self._store = PoolStore(encoder.fingerprint, self._items, encoder.encode_items(self._items))

    def __call__(self, run: Run) -> dict[str, float]:
        """Return shares that agree."""
        with swapped(self._encoder, run):
            queries = self._encoder.encode_queries(self._questions)
            made = self._encoder.encode_items(self._items)
        store = PoolStore(self._encoder.fingerprint, self._items, made)
        found: dict[str, list[float]] = {"items": [], "paper": [], "set": []}
        for place in range(len(self._questions)):
            first = self._store.search(self._queries.retrieval[place], K)
            second = store.search(queries.retrieval[place], K)
            there = {each.item.id for each in second}
            found["items"].append(sum(each.item.id in there for each in first) / K)
            rows = [store.position[each.item.id] for each in first]
            same = [
                type(each)(hit=each.hit, item=each.item, nodes=made[row].nodes)
                for each, row in zip(first, rows, strict=True)
            ]
            for method in ("paper", "set"):
                one = kept(first, self._queries, place, method)
                other = kept(same, queries, place, method)
                found[method] += [a == b for a, b in zip(one, other, strict=True)]
        cosines = (self._queries.node * queries.node).sum(axis=1)
        shares = {name: round(float(np.mean(own)), 4) for name, own in found.items()}
        return {**shares, "least_query_cosine": round(float(cosines.min()), 5)}


def ways(path: Path, weights: Weights) -> dict[str, Run]:
    """Return the ways to run that are installed."""
    made = {
        SHIPPED: session(path),
        "onnxruntime float32, 2 threads a pass": session(path, 2),
        "onnxruntime dynamic int8": dynamic(path),
    }
    if importlib.util.find_spec("onnx_ir") is not None:
        made["onnxruntime int8 in blocks of 64"] = blocks(path)
    if importlib.util.find_spec("openvino") is not None:
        made["openvino float32"] = openvino(path)
        made[OPENVINO] = runtime(weights, "openvino", 1)
    return made


def timed(encoder: MiniLM, run: Run, work: Callable[[], object]) -> None:
    with swapped(encoder, run):
        work()


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--items", type=int, default=300)
    made.add_argument("--questions", type=int, default=100, help=f"at least {TOGETHER}")
    made.add_argument("--repeats", type=int, default=5)
    arguments = made.parse_args()
    loaded = documents.natural_questions(require(arguments.data, "nq"))
    items = list(loaded.items())
    wanted = set(standard_split(loaded).test)
    questions = [each.text for each in loaded.questions if each.id in wanted]
    encoder = named_encoder("minilm", threads=1)
    assert isinstance(encoder, MiniLM)
    model = network(encoder)
    with Recorder(encoder) as recorder:
        encoder.encode_items(items[: arguments.items])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "whole.onnx"
        whole_graph(model, path)
        every = ways(path, model.weights())
        loop = partial(bare_loop, model, recorder.calls)
        batches = {name: partial(timed, encoder, run, loop) for name, run in every.items()}
        side_by_side: tuple[tuple[str, Backend], ...] = (
            ("onnxruntime float32, passes side by side", "onnxruntime"),
            ("openvino bfloat16, passes side by side", "openvino"),
        )
        for name, backend in side_by_side:
            if backend == "onnxruntime" or OPENVINO in every:
                several = from_config(EncoderConfig(name="minilm", backend=backend))
                assert isinstance(several, MiniLM)
                batches[name] = partial(bare_loop, network(several), recorder.calls)
        watch = in_turns(batches, arguments.repeats)
        alone = Watch()
        for question in questions[: arguments.questions]:
            for name, run in every.items():
                with swapped(encoder, run):
                    alone.time(name, partial(encoder.encode_queries, [question]))
        for start in range(0, arguments.questions - TOGETHER + 1, TOGETHER):
            some = questions[start : start + TOGETHER]
            alone.time("together", partial(encoder.encode_queries, some))
        agreement = Agreement(encoder, items, questions[: arguments.questions])
        rows = {
            name: {
                "batches_speedup": round(watch.median(SHIPPED) / watch.median(name), 2),
                **(
                    {
                        "query_speedup": round(alone.median(SHIPPED) / alone.median(name), 2),
                        **agreement(every[name]),
                    }
                    if name in every
                    else {}
                ),
            }
            for name in batches
        }
    result = {
        "what": "the embedded encoder's network, run in other ways",
        "items": arguments.items,
        "questions": arguments.questions,
        "repeats": arguments.repeats,
        "tokens_per_s": round(recorder.n_tokens / watch.median(SHIPPED)),
        "query_ms": round(1000 * alone.median(SHIPPED), 2),
        "queries_in_a_call": TOGETHER,
        "query_speedup_in_a_call": round(
            TOGETHER * alone.median(SHIPPED) / alone.median("together"), 2
        ),
        **machine(),
        "rows": rows,
    }
    for name, row in rows.items():
        print(f"{name:45} {row}")
    write("runtime", result)


if __name__ == "__main__":
    main()
